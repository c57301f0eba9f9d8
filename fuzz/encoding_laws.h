#pragma once
// Laws of encoding that hold for every tokenizer and all bytes: ids are in the vocabulary, spans of
// tokens lie within the text, and decoding gives the text back, unless the tokenizer is of a kind
// that changes texts.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rapt/error.h"
#include "rapt/text/encoding.h"
#include "rapt/text/stream_decoder.h"
#include "text/normal_form/nfc.h"
#include "text/parts.h"

namespace rapt::fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

// Does decoding give back a text that can be encoded?
inline bool keeps_text(const text::Tokenizer& tokenizer, std::string_view given) {
  const text::Tokenizer::Parts& parts = tokenizer.parts();
  if (tokenizer.kind() == text::TokenizerKind::word_piece) return false;
  const auto* const pieces = std::get_if<text::ByteFallbackBpe>(&parts.model);
  if (pieces &&
      (pieces->options().blank_in_front != text::BlankInFront::never ||
       pieces->options().decoding_strips_blank || given.find(text::kBlankMarkBytes) != given.npos))
    return false;
  if (parts.composes && !text::is_surely_nfc(given)) return false;
  return std::ranges::none_of(parts.added.tokens(), [&](const text::AddedToken& token) {
    return token.lstrip || token.rstrip || tokenizer.token_bytes(token.id) != token.content;
  });
}

// The text as a pair, whole and cut to a length.
inline void encode_with_spans(const text::Tokenizer& tokenizer, std::string_view given) {
  size_t half = given.size() / 2;
  while (half < given.size() && (static_cast<unsigned char>(given[half]) & 0xC0) == 0x80) ++half;
  const std::string_view texts[] = {given, given.substr(half)};
  const text::Encoding encoding = encode_texts(tokenizer, texts[0], texts[1]);
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const text::ByteSpan span = encoding.spans[i];
    require(encoding.ids[i] >= 0 && encoding.ids[i] < tokenizer.vocabulary());
    const int source = encoding.texts[i];
    const int64_t bytes = source == text::kTemplateToken ? 0 : std::ssize(texts[source]);
    require(span.begin >= 0 && span.begin <= span.end && span.end <= bytes);
  }
  // The special tokens alone may be more: an Error(argument).
  const auto most = static_cast<int64_t>(1 + given.size() % 16);
  const text::Encoding cut = encode_texts(tokenizer, texts[0], texts[1], {.most_tokens = most});
  require(std::ssize(cut.ids) <= most && cut.cut == (std::ssize(encoding.ids) > most));
}

inline std::string streamed(const text::Tokenizer& tokenizer, const std::vector<int64_t>& ids) {
  text::StreamDecoder decoder(tokenizer);
  std::string text;
  for (const int64_t id : ids) text += decoder.next(id);
  return text + decoder.finish();
}

inline void encode_and_decode(const text::Tokenizer& tokenizer, std::string_view given) {
  std::vector<int64_t> ids = {-1};
  try {
    tokenizer.encode(given, ids);
  } catch (const Error& e) {  // a character that is not in the vocabulary
    require(e.code() == ErrorCode::argument && ids == std::vector<int64_t>{-1});
    return;
  }
  ids.erase(ids.begin());
  for (const int64_t id : ids) require(id >= 0 && id < tokenizer.vocabulary());
  const std::string decoded = tokenizer.decode(ids);
  if (keeps_text(tokenizer, given)) require(decoded == given && streamed(tokenizer, ids) == given);
  require(encode_texts(tokenizer, given, {}, {.special_tokens = false}).ids == ids);
  try {
    encode_with_spans(tokenizer, given);
  } catch (const Error& e) {  // special tokens beyond the limit
    require(e.code() == ErrorCode::argument);
  }
}

}  // namespace rapt::fuzz

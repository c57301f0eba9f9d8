// tokenizer.json from any bytes. A tokenizer that was read survives writing and reading, and
// decodes what it encodes, unless it is of a kind that is not written or that changes texts. Spans
// of tokens lie within the text.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <variant>

#include "largest_allocation.h"
#include "rapt/error.h"
#include "rapt/text/encoding.h"
#include "rapt/text/tokenizer_file.h"
#include "text/normal_form/nfc.h"
#include "text/parts.h"

using namespace rapt;

namespace {

// A value in an array has 16 bytes and at least 2 of text, in a list with up to twice the room that
// it needs; an id of an encoded byte has 8, in a list of this kind. A tokenizer has tables of all
// bytes.
constexpr size_t kBytesPerByte = 22, kBytesBeyond = 8192;

void require(bool condition) {
  if (!condition) std::abort();
}

// Does decoding give back a text that can be encoded?
bool keeps_text(const text::Tokenizer& tokenizer, std::string_view given) {
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

bool is_written(const text::Tokenizer& tokenizer) {
  try {
    text::tokenizer_json(tokenizer);
    return true;
  } catch (const Error& e) {
    require(e.code() == ErrorCode::unsupported);
    return false;
  }
}

void encode_with_spans(const text::Tokenizer& tokenizer, std::string_view given) {
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

void encode_and_decode(const text::Tokenizer& tokenizer, std::string_view given) {
  try {
    const std::vector<int64_t> ids = tokenizer.encode(given);
    for (const int64_t id : ids) require(id >= 0 && id < tokenizer.vocabulary());
    require(!keeps_text(tokenizer, given) || tokenizer.decode(ids) == given);
    encode_with_spans(tokenizer, given);
  } catch (const Error& e) {  // a character that is not in the vocabulary
    require(e.code() == ErrorCode::argument);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view given(reinterpret_cast<const char*>(data), size);
  fuzz::begin_watching();
  try {
    const text::Tokenizer tokenizer = text::parse_tokenizer(given, "fuzz");
    require(fuzz::largest_allocation <= kBytesPerByte * size + kBytesBeyond);
    encode_and_decode(tokenizer, given);
    if (!is_written(tokenizer)) return 0;
    const std::string json = text::tokenizer_json(tokenizer);
    const text::Tokenizer again = text::parse_tokenizer(json, "written");
    require(text::tokenizer_json(again) == json && again.vocabulary() == tokenizer.vocabulary());
  } catch (const Error& e) {
    require(e.code() == ErrorCode::format || e.code() == ErrorCode::unsupported);
    require(fuzz::largest_allocation <= kBytesPerByte * size + kBytesBeyond);
  }
  return 0;
}

#include "rapt/text/encoding.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "rapt/error.h"
#include "text/check_utf8.h"
#include "text/encoding/encode_parts.h"

namespace rapt::text {
namespace {

struct EncodedText {
  std::vector<int64_t> ids;
  std::vector<ByteSpan> spans;

  void keep(int64_t tokens) {
    ids.resize(static_cast<size_t>(std::min(tokens, std::ssize(ids))));
    spans.resize(ids.size());
  }
};

EncodedText encoded(const Tokenizer& tokenizer, std::string_view text) {
  check_utf8(text);
  EncodedText result;
  encode_parts(tokenizer.parts(), text, result.ids, &result.spans);
  return result;
}

// How many tokens of two texts stay (tokenizers, utils/truncation.rs, LongestFirst).
std::pair<int64_t, int64_t> lengths_within(int64_t first, int64_t second, int64_t most) {
  const bool swapped = first > second;
  if (swapped) std::swap(first, second);
  second = first > most ? first : std::max(first, most - first);
  if (first + second > most) {
    first = most / 2;
    second = first + most % 2;
  }
  if (swapped) std::swap(first, second);
  return {first, second};
}

// Cuts the texts so that they and `special` tokens are at most `most`.
bool cut(std::array<EncodedText, 2>& texts, bool is_pair, int64_t special, int64_t most) {
  if (special > most)
    throw Error(ErrorCode::argument,
                "most_tokens: expected at least the " + std::to_string(special) +
                    " special tokens of the template, got " + std::to_string(most),
                "most_tokens");
  const int64_t first = std::ssize(texts[0].ids), second = std::ssize(texts[1].ids);
  const int64_t room = most - special;
  if (first + second <= room) return false;
  const auto [keep_first, keep_second] =
      is_pair ? lengths_within(first, second, room) : std::pair<int64_t, int64_t>{room, 0};
  texts[0].keep(keep_first);
  texts[1].keep(keep_second);
  return true;
}

void append(const TemplatePart& part, const std::array<EncodedText, 2>& texts, bool special,
            Encoding& encoding) {
  if (part.text >= 0) {
    const EncodedText& text = texts[static_cast<size_t>(part.text)];
    encoding.ids.insert(encoding.ids.end(), text.ids.begin(), text.ids.end());
    encoding.spans.insert(encoding.spans.end(), text.spans.begin(), text.spans.end());
  } else if (special) {
    encoding.ids.insert(encoding.ids.end(), part.ids.begin(), part.ids.end());
  }
  encoding.types.resize(encoding.ids.size(), part.type);
  encoding.spans.resize(encoding.ids.size(), ByteSpan{0, 0});
  encoding.texts.resize(encoding.ids.size(), part.text);
}

}  // namespace

Encoding encode_texts(const Tokenizer& tokenizer, std::string_view text,
                      std::optional<std::string_view> second, const EncodeOptions& options) {
  if (options.most_tokens < 0)
    throw Error(ErrorCode::argument,
                "most_tokens: expected 0 or more, got " + std::to_string(options.most_tokens),
                "most_tokens");
  const SequenceTemplate& around = tokenizer.parts().around;
  const std::vector<TemplatePart>& parts = second ? around.pair : around.single;
  std::array<EncodedText, 2> texts{encoded(tokenizer, text),
                                   second ? encoded(tokenizer, *second) : EncodedText{}};
  int64_t special = 0;
  if (options.special_tokens)
    for (const TemplatePart& part : parts) special += std::ssize(part.ids);
  Encoding encoding;
  if (options.most_tokens > 0)
    encoding.cut = cut(texts, second.has_value(), special, options.most_tokens);
  for (const TemplatePart& part : parts) append(part, texts, options.special_tokens, encoding);
  return encoding;
}

}  // namespace rapt::text

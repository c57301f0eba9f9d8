#include "text/bpe/byte_fallback_bpe.h"

#include <algorithm>
#include <string>

#include "io/text/utf8.h"

namespace rapt::text {
namespace {

// The bytes of a blank at the beginning of a text; 0: there is none.
size_t leading_blank(std::string_view text) {
  if (text.starts_with(' ')) return 1;
  return text.starts_with(kBlankMarkBytes) ? kBlankMarkBytes.size() : 0;
}

// Where the word ends that begins at `at`: blanks, and what follows up to the next one.
size_t end_of_word(std::string_view text, size_t at) {
  while (const size_t blank = leading_blank(text.substr(at))) at += blank;
  while (at < text.size() && leading_blank(text.substr(at)) == 0) ++at;
  return at;
}

bool joins_words(const Merge& merge, const std::vector<const std::string*>& texts) {
  return !texts[merge.left]->ends_with(kBlankMarkBytes) &&
         texts[merge.right]->starts_with(kBlankMarkBytes);
}

}  // namespace

ByteFallbackBpe::ByteFallbackBpe(CharacterIds characters, const std::array<uint32_t, 256>& byte_ids,
                                 const std::vector<Merge>& merges,
                                 const std::vector<const std::string*>& texts,
                                 ByteFallbackOptions options)
    : characters_(std::move(characters)),
      byte_ids_(byte_ids),
      table_(merges, texts.size()),
      options_(options),
      words_are_apart_(std::ranges::none_of(
          merges, [&](const Merge& merge) { return joins_words(merge, texts); })) {}

bool ByteFallbackBpe::adds_blank(std::string_view text, size_t begin) const {
  switch (options_.blank_in_front) {
    case BlankInFront::never:
      return false;
    case BlankInFront::text:
      return begin == 0 && leading_blank(text) == 0;
    case BlankInFront::parts:
      return leading_blank(text.substr(begin)) == 0;
    default:
      return true;
  }
}

void ByteFallbackBpe::Encoder::add(char32_t character, std::string_view bytes) {
  const int64_t id = model_.characters_.find(character == ' ' ? kBlankMark : character);
  if (id != CharacterIds::kNone) return merger_.add(static_cast<uint32_t>(id));
  for (const char byte : bytes) merger_.add(model_.byte_ids_[static_cast<uint8_t>(byte)]);
}

void ByteFallbackBpe::Encoder::encode_word(std::string_view word, bool blank_in_front) {
  const size_t begin = ids_.size();
  if (const auto* const range = blank_in_front ? nullptr : met_.find(word)) {
    for (size_t i = 0; i < range->count; ++i) ids_.push_back(ids_[range->begin + i]);
    return;
  }
  merger_.clear();
  if (blank_in_front) add(kBlankMark, kBlankMarkBytes);
  for (size_t at = 0; at < word.size();) {
    const CodePoint c = decode_utf8(word.substr(at));
    add(c.value, word.substr(at, c.bytes));
    at += c.bytes;
  }
  merger_.merge(ids_);
  if (!blank_in_front) met_.add(word, {begin, ids_.size() - begin});
}

void ByteFallbackBpe::Encoder::encode(std::string_view text, size_t begin, size_t end) {
  text = text.substr(0, end);
  bool blank_in_front = model_.adds_blank(text, begin);
  while (begin < end) {
    const size_t word_end = model_.words_are_apart_ ? end_of_word(text, begin) : end;
    encode_word(text.substr(begin, word_end - begin), blank_in_front);
    blank_in_front = false;
    begin = word_end;
  }
}

}  // namespace rapt::text

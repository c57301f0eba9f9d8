#include "text/split_pieces.h"

#include "io/text/utf8.h"
#include "text/unicode_classes.h"

namespace rapt::text {
namespace {

struct ClassifiedCharacter {
  CharacterClass kind;
  size_t bytes;
};

ClassifiedCharacter character_at(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {class_of(lead), 1};
  const CodePoint c = decode_utf8(text.substr(at));
  return {class_of(c.value), c.bytes};
}

// Where the characters of one class end that begin at `at`.
size_t end_of_run(std::string_view text, size_t at, CharacterClass kind) {
  while (at < text.size()) {
    const ClassifiedCharacter c = character_at(text, at);
    if (c.kind != kind) break;
    at += c.bytes;
  }
  return at;
}

size_t contraction(std::string_view text) {
  if (text[0] != '\'') return 0;
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"})
    if (text.substr(1).starts_with(ending)) return 1 + ending.size();
  return 0;
}

// \s+(?!\S)|\s+ : the last white space before something else is cut off, unless it is the only one.
size_t white_space(std::string_view text) {
  size_t last = 0, end = 0;
  while (end < text.size()) {
    const ClassifiedCharacter c = character_at(text, end);
    if (c.kind != CharacterClass::space) break;
    last = end;
    end += c.bytes;
  }
  return end == text.size() || last == 0 ? end : last;
}

}  // namespace

size_t first_piece(std::string_view text) {
  if (const size_t bytes = contraction(text)) return bytes;
  const size_t blank = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const CharacterClass kind = character_at(text, blank).kind;
  return kind == CharacterClass::space ? white_space(text) : end_of_run(text, blank, kind);
}

}  // namespace rapt::text

#include "text/bpe/split_pieces.h"

#include <algorithm>

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

// (?i:'s|'t|'re|'ve|'m|'ll|'d), where U+017F counts as an s.
size_t contraction_of_any_case(std::string_view text) {
  if (text[0] != '\'') return 0;
  for (const std::string_view ending : {"s", "\u017f", "t", "re", "ve", "m", "ll", "d"}) {
    const std::string_view given = text.substr(1, ending.size());
    const auto folded = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    if (std::ranges::equal(given, ending, {}, folded)) return 1 + ending.size();
  }
  return 0;
}

bool is_line_end(char c) { return c == '\n' || c == '\r'; }

// [^\s\p{L}\p{N}]+[\r\n]* from `at`; 0: the first character is of another class.
size_t others_with_line_ends(std::string_view text, size_t at) {
  size_t end = end_of_run(text, at, CharacterClass::other);
  if (end == at) return 0;
  while (end < text.size() && is_line_end(text[end])) ++end;
  return end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
size_t lines_or_white_space(std::string_view text) {
  const size_t end = end_of_run(text, 0, CharacterClass::space);
  const size_t line_end = text.substr(0, end).find_last_of("\r\n");
  return line_end != std::string_view::npos ? line_end + 1 : white_space(text);
}

size_t some_numbers(std::string_view text, int most) {
  size_t end = 0;
  for (; most > 0 && end < text.size(); --most) {
    const ClassifiedCharacter c = character_at(text, end);
    if (c.kind != CharacterClass::number) break;
    end += c.bytes;
  }
  return end;
}

size_t first_piece_of_llama(std::string_view text, int most_numbers) {
  if (const size_t bytes = contraction_of_any_case(text)) return bytes;
  const ClassifiedCharacter first = character_at(text, 0);
  if (first.kind == CharacterClass::letter) return end_of_run(text, 0, CharacterClass::letter);
  if (first.kind == CharacterClass::number) return some_numbers(text, most_numbers);
  if (!is_line_end(text[0])) {
    const size_t end = end_of_run(text, first.bytes, CharacterClass::letter);
    if (end > first.bytes) return end;
  }
  if (const size_t end = others_with_line_ends(text, text[0] == ' ' ? 1 : 0)) return end;
  return lines_or_white_space(text);
}

}  // namespace

size_t first_piece(std::string_view text, PiecePattern pattern) {
  if (pattern != PiecePattern::gpt2)
    return first_piece_of_llama(text, pattern == PiecePattern::llama3 ? 3 : 1);
  if (const size_t bytes = contraction(text)) return bytes;
  const size_t blank = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const CharacterClass kind = character_at(text, blank).kind;
  return kind == CharacterClass::space ? white_space(text) : end_of_run(text, blank, kind);
}

}  // namespace rapt::text

#include "text/unicode_classes.h"

#include <algorithm>
#include <array>
#include <span>

namespace rapt::text {
namespace {

struct CodeRange {
  char32_t first, last;
};
#include "text/unicode_class_ranges.inc"

bool is_in(std::span<const CodeRange> ranges, char32_t c) {
  const auto at = std::ranges::lower_bound(ranges, c, {}, &CodeRange::last);
  return at != ranges.end() && at->first <= c;
}

CharacterClass find_class(char32_t c) {
  if (is_in(kLetters, c)) return CharacterClass::letter;
  if (is_in(kNumbers, c)) return CharacterClass::number;
  return is_in(kSpaces, c) ? CharacterClass::space : CharacterClass::other;
}

// Most texts are mostly ASCII.
constexpr char32_t kAscii = 0x80;

std::array<CharacterClass, kAscii> classes_of_ascii() {
  std::array<CharacterClass, kAscii> classes;
  for (char32_t c = 0; c < kAscii; ++c) classes[c] = find_class(c);
  return classes;
}

}  // namespace

CharacterClass class_of(char32_t character) {
  static const std::array<CharacterClass, kAscii> ascii = classes_of_ascii();
  return character < kAscii ? ascii[character] : find_class(character);
}

}  // namespace rapt::text

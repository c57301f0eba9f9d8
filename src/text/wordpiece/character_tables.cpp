#include "text/wordpiece/character_tables.h"

#include <algorithm>

namespace rapt::text {
namespace {

struct CharacterRange {
  char32_t first, last;
};
struct CodeChange {
  char32_t from, to;
};
struct CodeSequence {
  char32_t from, to[3];  // 0 behind the last
};
struct MarkRank {
  char32_t first, last;
  int rank;
};
#include "text/wordpiece/accents.inc"
#include "text/wordpiece/character_kinds.inc"
#include "text/wordpiece/lowercase.inc"

template <class Range>
const Range* find_range(std::span<const Range> ranges, char32_t c) {
  const auto at = std::ranges::lower_bound(ranges, c, {}, &Range::last);
  return at != ranges.end() && at->first <= c ? &*at : nullptr;
}

bool is_in_ranges(std::span<const CharacterRange> ranges, char32_t c) {
  return find_range(ranges, c) != nullptr;
}

template <class Change>
const Change* find_change(std::span<const Change> changes, char32_t c) {
  const auto at = std::ranges::lower_bound(changes, c, {}, &Change::from);
  return at != changes.end() && at->from == c ? &*at : nullptr;
}

Decomposition changed(std::span<const CodeChange> letters, std::span<const CodeSequence> sequences,
                      char32_t c) {
  if (const CodeChange* const letter = find_change(letters, c)) return {{letter->to}, 1};
  if (const CodeSequence* const found = find_change(sequences, c)) {
    const int count = found->to[2] != 0 ? 3 : 2;
    return {{found->to[0], found->to[1], found->to[2]}, count};
  }
  return {{c}, 1};
}

// Syllables of Hangul (Unicode 15, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kSyllablesEnd = 0xD7A4;
constexpr char32_t kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kVowelCount = 21, kTrailingCount = 28;

Decomposition jamo_of(char32_t c) {
  const char32_t index = c - kSyllables, trailing = index % kTrailingCount;
  const char32_t leading = kLeading + index / (kVowelCount * kTrailingCount);
  const char32_t vowel = kVowels + index / kTrailingCount % kVowelCount;
  return {{leading, vowel, kTrailing + trailing}, trailing == 0 ? 2 : 3};
}

}  // namespace

bool is_dropped(char32_t c) { return is_in_ranges(kDropped, c); }
bool becomes_blank(char32_t c) { return is_in_ranges(kBlanks, c); }
bool is_chinese(char32_t c) { return is_in_ranges(kChinese, c); }
bool is_separator(char32_t c) { return is_in_ranges(kSeparators, c); }
bool is_punctuation(char32_t c) { return is_in_ranges(kPunctuation, c); }
bool ends_mark_run(char32_t c) { return is_in_ranges(kEndingMarks, c); }

Decomposition strip_accent(char32_t c) {
  if (c >= kSyllables && c < kSyllablesEnd) return jamo_of(c);
  if (is_in_ranges(kRemovedMarks, c)) return {{}, 0};
  return changed(kBaseLetters, kDecomposed, c);
}

int mark_rank(char32_t c) {
  const MarkRank* const found = find_range(std::span<const MarkRank>(kMarkRanks), c);
  return found ? found->rank : 0;
}

Decomposition lowercase_of(char32_t c) { return changed(kLowerLetters, kLowerSequences, c); }

}  // namespace rapt::text

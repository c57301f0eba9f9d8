#include "text/normal_form/nfc.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>

#include "io/text/utf8.h"

namespace rapt::text {
namespace {

struct NfcRange {
  char32_t first, last;
};
struct NfcClass {
  char32_t first, last;
  int rank;  // of the canonical class; marks stand by ascending rank
};
struct NfcDecomposition {
  char32_t from, to[4];  // 0 behind the last
};
struct NfcComposition {
  char32_t first, second, to;
};
#include "text/normal_form/nfc_tables.inc"

// Syllables of Hangul (Unicode 15, section 3.12).
constexpr char32_t kNfcSyllables = 0xAC00, kNfcSyllableCount = 11172;
constexpr char32_t kNfcLeading = 0x1100, kNfcLeadingCount = 19;
constexpr char32_t kNfcVowel = 0x1161, kNfcVowelCount = 21;
constexpr char32_t kBeforeNfcTrailing = 0x11A7, kNfcTrailingCount = 28;

template <class Table>
auto find_in_ranges(const Table& table, char32_t c) {
  const auto at =
      std::ranges::lower_bound(table, c, {}, [](const auto& range) { return range.last; });
  return at != std::end(table) && at->first <= c ? &*at : nullptr;
}

// Can it change, or be changed by what stands before it?
bool is_unstable(char32_t c) { return c >= 0x300 && find_in_ranges(kNfcUnstable, c) != nullptr; }

int rank_of(char32_t c) {
  const auto* const found = find_in_ranges(kNfcClasses, c);
  return found ? found->rank : 0;
}

// A character on its way from decomposition to composition.
struct NfcPart {
  char32_t value;
  int rank;
  int added;  // 1 minus the number of source characters that it stands for
};

template <class Add>
void decompose(char32_t c, const Add& add) {
  if (c >= kNfcSyllables && c < kNfcSyllables + kNfcSyllableCount) {
    const char32_t index = c - kNfcSyllables, trailing = index % kNfcTrailingCount;
    add(kNfcLeading + index / (kNfcVowelCount * kNfcTrailingCount));
    add(kNfcVowel + index / kNfcTrailingCount % kNfcVowelCount);
    if (trailing > 0) add(kBeforeNfcTrailing + trailing);
    return;
  }
  const auto at = std::ranges::lower_bound(kNfcDecomposed, c, {}, &NfcDecomposition::from);
  if (at == std::end(kNfcDecomposed) || at->from != c) return add(c);
  for (const char32_t part : at->to)
    if (part != 0) add(part);
}

std::optional<char32_t> compose(char32_t first, char32_t second) {
  if (first - kNfcLeading < kNfcLeadingCount && second - kNfcVowel < kNfcVowelCount)
    return kNfcSyllables +
           ((first - kNfcLeading) * kNfcVowelCount + second - kNfcVowel) * kNfcTrailingCount;
  if (first - kNfcSyllables < kNfcSyllableCount &&
      (first - kNfcSyllables) % kNfcTrailingCount == 0 && second > kBeforeNfcTrailing &&
      second < kBeforeNfcTrailing + kNfcTrailingCount)
    return first + (second - kBeforeNfcTrailing);
  const auto key = [](const NfcComposition& c) { return std::pair(c.first, c.second); };
  const auto at = std::ranges::lower_bound(kNfcComposed, std::pair(first, second), {}, key);
  if (at == std::end(kNfcComposed) || key(*at) != std::pair(first, second)) return std::nullopt;
  return at->to;
}

std::vector<NfcPart> decomposed(std::string_view text) {
  std::vector<NfcPart> parts;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text.substr(at));
    int added = 0;
    decompose(c.value, [&](char32_t part) {
      parts.push_back({part, rank_of(part), added});
      added = 1;
    });
    at += c.bytes;
  }
  for (auto begin = parts.begin(); begin != parts.end();) {
    const auto end =
        std::find_if(std::next(begin), parts.end(), [](const NfcPart& p) { return p.rank == 0; });
    std::stable_sort(begin, end,
                     [](const NfcPart& a, const NfcPart& b) { return a.rank < b.rank; });
    begin = end;
  }
  return parts;
}

// Composes in place.
void compose_all(std::vector<NfcPart>& parts) {
  size_t kept = 0;
  std::optional<size_t> starter;  // the last one, among those kept
  int last_rank = 0;              // of what is kept behind it; 0: nothing is
  for (const NfcPart part : parts) {
    const bool blocked = last_rank != 0 && last_rank >= part.rank;
    if (starter && !blocked) {
      NfcPart& first = parts[*starter];
      if (const std::optional<char32_t> together = compose(first.value, part.value)) {
        first.value = *together;
        first.added += part.added - 1;
        continue;
      }
    }
    if (part.rank == 0) starter = kept;
    last_rank = part.rank;
    parts[kept++] = part;
  }
  parts.resize(kept);
}

}  // namespace

bool is_surely_nfc(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    // Bytes below 0xCC begin what is below U+0300.
    if (static_cast<unsigned char>(text[at]) < 0xCC) {
      ++at;
      continue;
    }
    const CodePoint c = decode_utf8(text.substr(at));
    if (is_unstable(c.value)) return false;
    at += c.bytes;
  }
  return true;
}

NfcText::NfcText(std::string_view text) {
  size_t done = 0, before = 0;  // where the last stable character begins
  for (size_t at = 0; at < text.size();) {
    CodePoint c = decode_utf8(text.substr(at));
    if (!is_unstable(c.value)) {
      before = at;
      at += c.bytes;
      continue;
    }
    const size_t begin = std::max(before, done);
    while (at < text.size() && is_unstable((c = decode_utf8(text.substr(at))).value)) at += c.bytes;
    add_as_it_is(text, done, begin);
    add_composed(text, begin, at);
    done = before = at;
  }
  add_as_it_is(text, done, text.size());
}

void NfcText::add_as_it_is(std::string_view source, size_t begin, size_t end) {
  if (begin == end) return;
  pieces_.push_back({text_.size(), begin, 0});
  text_ += source.substr(begin, end - begin);
}

void NfcText::add_composed(std::string_view source, size_t begin, size_t end) {
  std::vector<NfcPart> parts = decomposed(source.substr(begin, end - begin));
  compose_all(parts);
  const auto bytes_at = [&](size_t at) { return decode_utf8(source.substr(at)).bytes; };
  size_t at = begin, last = begin;  // the next character of the source, and the one before it
  for (const NfcPart& part : parts) {
    // The first character that it stands for; one that is added has the place of the one before.
    const size_t place = part.added <= 0 ? at : last;
    pieces_.push_back({text_.size(), place, bytes_at(place)});
    append_utf8(part.value, text_);
    for (int left = 1 - part.added; left > 0; --left) {
      last = at;
      at += bytes_at(at);
    }
  }
}

ByteSpan NfcText::place(size_t at) const {
  const auto piece = std::prev(std::ranges::upper_bound(pieces_, at, {}, &Piece::at));
  if (piece->bytes != 0)
    return {static_cast<int64_t>(piece->begin), static_cast<int64_t>(piece->begin + piece->bytes)};
  while ((static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80) --at;
  const size_t begin = piece->begin + (at - piece->at);
  const size_t bytes = decode_utf8(std::string_view(text_).substr(at)).bytes;
  return {static_cast<int64_t>(begin), static_cast<int64_t>(begin + bytes)};
}

}  // namespace rapt::text

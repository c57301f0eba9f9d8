#include "viz/text/label_text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace rapt::viz {
namespace {

struct CodeRange {
  char32_t first, last;
};
#include "viz/text/display_width_ranges.inc"

// Invisible characters that reorder, hide or join text, and those that XML 1.0 forbids. The joiners
// U+200C and U+200D stay: several scripts need them.
constexpr CodeRange kDropped[] = {
    {0x0, 0x1f},        {0x7f, 0x9f},      {0xad, 0xad},     {0x61c, 0x61c},     {0x180e, 0x180e},
    {0x200b, 0x200b},   {0x200e, 0x200f},  {0x2028, 0x202e}, {0x2060, 0x206f},   {0xfdd0, 0xfdef},
    {0xfeff, 0xfeff},   {0xfff9, 0xfffb},  {0xfffe, 0xffff}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
    {0xe0000, 0xe00ff}, {0xe01f0, 0xe0fff}};

constexpr char32_t kReplacement = 0xfffd;
constexpr char32_t kJoiner = 0x200d;
constexpr char32_t kLeftToRight = 0x200e, kRightToLeft = 0x200f;  // marks
constexpr size_t kMaxCharacters = 1000;  // far beyond what any picture shows
constexpr int kMaxMarks = 4;             // per letter; written languages need up to three

bool contains(const CodeRange* begin, const CodeRange* end, char32_t c) {
  const CodeRange* range =
      std::lower_bound(begin, end, c, [](const CodeRange& r, char32_t x) { return r.last < x; });
  return range != end && range->first <= c;
}

template <size_t n>
bool contains(const CodeRange (&ranges)[n], char32_t c) {
  return contains(ranges, ranges + n, c);
}

// Decodes one character at `at` and moves past it; one byte if it is not valid UTF-8.
char32_t decode(std::string_view s, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return s[at++];
  const int more = lead >= 0xf0 && lead < 0xf5   ? 3
                   : lead >= 0xe0 && lead < 0xf0 ? 2
                   : lead >= 0xc2 && lead < 0xe0 ? 1
                                                 : 0;
  if (more == 0 || at + more >= s.size()) return ++at, kReplacement;
  char32_t code = lead & (0x3f >> more);
  for (int i = 1; i <= more; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return ++at, kReplacement;
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};  // shorter forms are not valid
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[more] || code > 0x10ffff || surrogate) return ++at, kReplacement;
  at += more + 1;
  return code;
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= 9 && c <= 13) || c == 0x85 || c == 0xa0 || c == 0x2028 || c == 0x2029;
}

// Whether a character is in a block of scripts that are written from right to left.
bool is_right_to_left(char32_t c) {
  return (c >= 0x590 && c < 0x900) || (c >= 0xfb1d && c < 0xfe00) || (c >= 0xfe70 && c < 0xff00) ||
         (c >= 0x10800 && c < 0x11000) || (c >= 0x1e800 && c < 0x1f000);
}
bool is_left_to_right(char32_t c) {
  const bool ascii = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  const bool marks = (c >= 0x300 && c < 0x370) || (c >= 0x2000 && c < 0x2c00) ||
                     (c >= 0x3000 && c < 0x3005) || (c >= 0xfe00 && c < 0xfe70) || c >= 0x1f000;
  return ascii || (c >= 0xc0 && c != 0xd7 && c != 0xf7 && !marks && !is_right_to_left(c));
}

bool reads_right_to_left(std::u32string_view text) {  // by its first letter
  for (const char32_t c : text) {
    if (is_right_to_left(c)) return true;
    if (is_left_to_right(c)) return false;
  }
  return false;
}

}  // namespace

int display_width(char32_t c) {
  if (c < 0x300) return 1;
  if (c >= 0x200c && c <= kRightToLeft) return 0;  // joiners and marks of direction
  if (contains(kZeroWidth, c)) return 0;
  return contains(kWide, c) ? 2 : 1;
}

int display_width(std::u32string_view text) {
  int width = 0;
  for (char32_t c : text) width += display_width(c);
  return width;
}

std::vector<std::u32string> letters(std::u32string_view text) {
  std::vector<std::u32string> found;
  for (const char32_t c : text) {
    if (found.empty() || (display_width(c) > 0 && !contains(kSpacingMarks, c)))
      found.emplace_back();
    found.back() += c;
  }
  return found;
}

std::u32string closed(std::u32string_view text) {
  std::u32string out(text);
  if (!reads_right_to_left(text)) return out;
  if (!is_right_to_left(out.front())) out.insert(out.begin(), kRightToLeft);
  if (!is_right_to_left(out.back())) out += kRightToLeft;
  return out;
}

std::u32string with_plain_emoji(std::u32string_view text) {
  std::u32string out;
  bool emoji = false;  // whether the last character with a width is an emoji
  for (const char32_t c : text) {
    const bool selector = c == 0xfe0e || c == 0xfe0f;
    if (!selector && !(c == kJoiner && emoji)) out += c;
    if (display_width(c) > 0) emoji = (c >= 0x2190 && c < 0x2c00) || c >= 0x1f000;
  }
  return out;
}

std::u32string kept_to_itself(std::u32string_view text) {
  std::u32string out = closed(text);
  if (std::any_of(out.begin(), out.end(), is_right_to_left)) out += kLeftToRight;
  return out;
}

std::u32string clean_text(std::string_view utf8) {
  std::u32string out;
  int marks = 0;
  for (size_t at = 0; at < utf8.size() && out.size() < kMaxCharacters;) {
    const char32_t c = decode(utf8, at);
    if (is_space(c)) {
      out += U' ';
      marks = 0;
    } else if (!contains(kDropped, c) && (c & 0xfffe) != 0xfffe) {
      marks = display_width(c) == 0 ? marks + 1 : 0;
      if (marks <= kMaxMarks) out += c;
    }
  }
  return out;
}

std::string encode_utf8(std::u32string_view text) {
  std::string out;
  const auto put = [&out](char32_t byte) { out += static_cast<char>(byte); };
  for (char32_t c : text) {
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
      put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
    } else {
      put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f));
      put(0x80 | (c & 0x3f));
    }
  }
  return out;
}

std::u32string shorten(std::u32string_view text, double limit, char32_t ellipsis,
                       const std::function<double(std::u32string_view)>& measure) {
  if (measure(text) <= limit) return std::u32string(text);
  const double room = limit - measure(std::u32string_view(&ellipsis, 1));
  size_t length = 0;
  double used = 0;
  while (length < text.size() && (used += measure(text.substr(length, 1))) <= room) ++length;
  while (length > 0 && (text[length - 1] == kJoiner || text[length - 1] == U' ')) --length;
  std::u32string out(text.substr(0, length));
  if (room >= 0) out += ellipsis;
  return out;
}

}  // namespace rapt::viz

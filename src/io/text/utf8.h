#pragma once
// UTF-8: one code point at a time.
#include <cstdint>
#include <string>
#include <string_view>

namespace rapt {

inline constexpr char32_t kReplacement = 0xFFFD;

struct CodePoint {
  char32_t value;  // kReplacement when the bytes are not valid UTF-8
  size_t bytes;    // the number of bytes that were read, at least 1
};

// Reads one code point from text that is not empty. If the bytes are invalid, reads the longest
// part that could have begun a code point (Unicode 15, section 3.9, table 3-7).
inline CodePoint decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {kReplacement, 1};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte also excludes overlong forms, surrogates and values beyond U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t value = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i, low = 0x80, high = 0xBF) {
    if (i == text.size() || byte(i) < low || byte(i) > high) return {kReplacement, i};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  return {value, length};
}

// False if decode_utf8() read invalid bytes. (A replacement character in the text itself has three
// bytes.)
inline bool is_valid(const CodePoint& c, std::string_view bytes) {
  return c.value != kReplacement || bytes == "\xEF\xBF\xBD";
}

// Appends a code point that is no surrogate.
inline void append_utf8(char32_t c, std::string& text) {
  const auto byte = [&](char32_t value) { text += static_cast<char>(value); };
  const auto trail = [&](int shift) { byte(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) {
    byte(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    byte(0xE0 | c >> 12);
    trail(6);
  } else {
    byte(0xF0 | c >> 18);
    trail(12);
    trail(6);
  }
  trail(0);
}

// Whether the text is valid UTF-8 without a zero byte.
inline bool is_utf8_without_zero(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text.substr(at));
    if (!is_valid(c, text.substr(at, c.bytes)) || c.value == 0) return false;
    at += c.bytes;
  }
  return true;
}

}  // namespace rapt

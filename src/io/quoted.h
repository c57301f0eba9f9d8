#pragma once
// Text from outside, made fit for a one-line message: quoted, escaped, cut.
#include <string>
#include <string_view>

#include "rapt/io/plain_text.h"

namespace rapt {

// Enough to recognise a value; a message must not be flooded by a hostile header.
inline constexpr size_t kQuotedLength = 40;

// Control characters and bytes above 0x7e become \xNN, so that a message stays on one line and
// cannot drive a terminal.
inline std::string escaped(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

inline std::string in_quotes(std::string_view text) {
  const std::string cut = escaped(text.substr(0, kQuotedLength));
  return "'" + cut + (text.size() > kQuotedLength ? "...'" : "'");
}

// A path keeps its UTF-8 and its length.
inline std::string path_text(std::string_view path) { return plain_text(path); }

}  // namespace rapt

#pragma once
// Text from outside (file names, options, words), made fit to be shown.
#include <string>
#include <string_view>

namespace rapt::cli {

// Control characters become \xNN: a message stays on one line and cannot drive a terminal. UTF-8
// stays.
inline std::string shown(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

}  // namespace rapt::cli

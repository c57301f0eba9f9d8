#include "rapt/io/plain_text.h"

#include "io/quoted.h"
#include "io/text/utf8.h"

namespace rapt {
namespace {

bool is_plain(char32_t c) {
  const auto between = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  const bool control = c < 0x20 || between(0x7F, 0x9F);
  const bool turns =
      c == 0x061C || between(0x200E, 0x200F) || between(0x202A, 0x202E) || between(0x2066, 0x2069);
  return !control && !turns && !between(0x2028, 0x2029);
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint c = decode_utf8(text);
    const std::string_view bytes = text.substr(0, c.bytes);
    out += is_valid(c, bytes) && is_plain(c.value) ? std::string(bytes) : escaped(bytes);
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace rapt

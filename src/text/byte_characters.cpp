#include "text/byte_characters.h"

#include <algorithm>

#include "io/text/utf8.h"

namespace rapt::text {
namespace {

constexpr char32_t kFirstMoved = 0x100;

constexpr bool is_visible(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> characters_by_byte() {
  std::array<char32_t, 256> characters{};
  char32_t moved = kFirstMoved;
  for (unsigned byte = 0; byte < 256; ++byte) characters[byte] = is_visible(byte) ? byte : moved++;
  return characters;
}
constexpr std::array<char32_t, 256> kCharacters = characters_by_byte();

}  // namespace

std::array<uint8_t, 256> bytes_by_character() {
  std::array<uint8_t, 256> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  std::ranges::sort(bytes, {}, [](uint8_t byte) { return kCharacters[byte]; });
  return bytes;
}

std::string characters_of_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const char32_t c = kCharacters[static_cast<uint8_t>(byte)];
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else {  // below U+0800: two bytes
      text += static_cast<char>(0xC0 | (c >> 6));
      text += static_cast<char>(0x80 | (c & 0x3F));
    }
  }
  return text;
}

std::optional<std::string> bytes_of_characters(std::string_view characters) {
  if (characters.empty()) return std::nullopt;
  std::string bytes;
  while (!characters.empty()) {
    const CodePoint c = decode_utf8(characters);
    const auto at = std::ranges::find(kCharacters, c.value);
    if (at == kCharacters.end()) return std::nullopt;
    bytes += static_cast<char>(at - kCharacters.begin());
    characters.remove_prefix(c.bytes);
  }
  return bytes;
}

}  // namespace rapt::text

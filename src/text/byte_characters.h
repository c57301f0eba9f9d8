#pragma once
// GPT-2's characters for bytes, by which files write tokens of bytes as texts. A byte whose
// character in Latin-1 is visible is written as this character, the others as U+0100, U+0101, ...
// in order (openai/gpt-2, encoder.py, bytes_to_unicode).
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rapt::text {

// The bytes by ascending character: the order of the first 256 tokens.
std::array<uint8_t, 256> bytes_by_character();

// Bytes as a text, and back; nothing for an empty text, and
// where a character stands for no byte.
std::string characters_of_bytes(std::string_view bytes);
std::optional<std::string> bytes_of_characters(std::string_view characters);

}  // namespace rapt::text

#pragma once
// Cuts a text into the pieces within which byte-level BPE merges, by one of the expressions in use.
// Each is written by hand, and told by its text:
//
//   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//           ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   qwen2   the same with \p{N} in place of \p{N}{1,3}
//
// So a blank belongs to the word behind it, and of several white spaces before a word the last is
// cut off.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rapt::text {

enum class PiecePattern : uint8_t { gpt2, llama3, qwen2 };

// The bytes of the first piece of a text that is valid UTF-8 and not empty.
size_t first_piece(std::string_view text, PiecePattern pattern = PiecePattern::gpt2);

}  // namespace rapt::text

#pragma once
// Cuts a text into the pieces within which BPE merges, by GPT-2's expression:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// So a blank belongs to the word behind it, and of several white spaces before a word the last is
// cut off.
#include <cstddef>
#include <string_view>

namespace rapt::text {

// The bytes of the first piece of a text that is valid UTF-8 and not empty.
size_t first_piece(std::string_view text);

}  // namespace rapt::text

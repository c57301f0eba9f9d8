#pragma once
// Makes text from outside (paths, names of tensors, options) safe to display.
#include <string>
#include <string_view>

namespace rapt {

// UTF-8 stays as it is, except for characters that could break a line, reorder text or control a
// terminal. These, and bytes that are not UTF-8, become \xNN, byte by byte: control characters,
// those beyond ASCII too (U+0080 to U+009F); line separators (U+2028, U+2029); and characters that
// change the direction of writing (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
std::string plain_text(std::string_view text);

}  // namespace rapt

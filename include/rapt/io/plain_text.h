#pragma once
// Text from outside (paths, names of tensors, options), made fit to be shown.
#include <string>
#include <string_view>

namespace rapt {

// UTF-8 stays as it is; these become \xNN, byte by byte, so that a message stays on one line, reads
// as it is written and cannot drive a terminal: control characters, those beyond ASCII too
// (U+0080 to U+009F), separators of lines (U+2028, U+2029), what turns the direction of writing
// (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), and bytes that are no UTF-8.
std::string plain_text(std::string_view text);

}  // namespace rapt

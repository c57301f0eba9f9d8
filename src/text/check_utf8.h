#pragma once
// The check that all texts pass before anything is made of them.
#include <string_view>

namespace rapt::text {

// Throws Error(argument) with the offset of the first byte that is not UTF-8.
void check_utf8(std::string_view text);

}  // namespace rapt::text

#pragma once
// Tokens of a text as labels of a picture.
#include <string>
#include <string_view>

namespace rapt::cli {

// Line ends as ↵, tabs as \t, blanks as ␣ where there is nothing else.
std::string token_label(std::string_view bytes);

}  // namespace rapt::cli

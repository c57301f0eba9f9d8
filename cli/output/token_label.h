#pragma once
// Tokens of a text as labels of a picture.
#include <string>
#include <string_view>

namespace rapt::cli {

// Line ends and tabs as \n and \t, blanks alone in quotes.
std::string token_label(std::string_view bytes);

}  // namespace rapt::cli

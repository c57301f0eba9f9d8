#pragma once
// Small matrices written on the command line: "1 2; 3 4".
#include <string>
#include <string_view>

#include "rapt/tensor.h"

namespace rapt::cli {

// "1 2; 3 4" -> f64 [2, 2]: rows end with ';' or a line break, numbers are separated by blanks or
// commas.
Tensor parse_matrix(const std::string& option, std::string_view text);

// Whether the text has only numbers and separators, as parse_matrix() expects; "./1" names a file.
bool is_matrix_text(std::string_view text);

}  // namespace rapt::cli

#pragma once
// Escapes text from outside (file names, options, words) for printing.
#include <string>
#include <string_view>

#include "rapt/io/plain_text.h"

namespace rapt::cli {

inline std::string printable(std::string_view text) { return plain_text(text); }

}  // namespace rapt::cli

#pragma once
// A text of the command line: as it stands, or, behind "@", the content of a file.
#include <string>

#include "rapt/text/tokenizer.h"

namespace rapt::cli {

// Throws Failure(io) for a file that cannot be read.
std::string text_of_argument(const std::string& argument);

// The tokenizer of a folder, or of a file tokenizer.json. Throws Failure(io), and Error as
// text::read_tokenizer().
text::Tokenizer tokenizer_at(const std::string& path);

}  // namespace rapt::cli

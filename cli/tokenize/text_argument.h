#pragma once
// A text of the command line: as it stands, or, behind "@", the content of a file.
#include <string>
#include <vector>

#include "rapt/text/encoding.h"

namespace rapt::cli {

// Throws Failure(io) for a file that cannot be read.
std::string text_of_argument(const std::string& argument);

// The names of the texts in messages: their files, "text 2", or "the text" if it is the only one.
std::vector<std::string> names_of_texts(const std::vector<std::string>& arguments);

// text::encode_texts() of a text or a pair. Errors of a text begin with its name.
text::Encoding encode_named(const text::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                            const std::vector<std::string>& names,
                            const text::EncodeOptions& options);

// The tokenizer of a folder, or of a file tokenizer.json. Throws Failure(io), and Error as
// text::read_tokenizer().
text::Tokenizer tokenizer_at(const std::string& path);

}  // namespace rapt::cli

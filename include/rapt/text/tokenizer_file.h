#pragma once
// Tokenizers in the files of Hugging Face's packages: tokenizer.json of tokenizers, and the
// tokenizer_config.json by which transformers opens it.
//
// Read and written are byte-level BPE (model BPE, pre_tokenizer and decoder ByteLevel without a
// prefix space) and characters (model WordLevel, pre_tokenizer Split at "", decoder Fuse), with
// added tokens. Read alone are BPE with byte fallback, WordPiece, normalizer NFC, other expressions
// and special tokens around texts (docs/tokenizers.md has the table). A file that asks for
// something else is rejected with an error that names it.
#include <string>
#include <string_view>

#include "rapt/io/output_file.h"
#include "rapt/text/tokenizer.h"

namespace rapt::text {

// Larger files than any in use; a limit of what a file can make rapt allocate.
inline constexpr int64_t kMaxTokenizerFile = int64_t{1} << 28;

// Reads folder/tokenizer.json. Throws Error(io); Error(format): not JSON, or not what a tokenizer
// is written as; Error(unsupported): it asks for what rapt does not compute.
Tokenizer read_tokenizer(const std::string& folder);

// The same from the text of a tokenizer.json; `name` stands for the path in messages.
Tokenizer parse_tokenizer(std::string_view json, const std::string& name);

// The text of a tokenizer.json, byte for byte as the package saves it. Throws Error(unsupported)
// for a tokenizer that is read alone.
std::string tokenizer_json(const Tokenizer& tokenizer);

// Writes tokenizer.json and tokenizer_config.json into a folder that exists. Throws Error(io), and
// as tokenizer_json().
void write_tokenizer(const Tokenizer& tokenizer, const std::string& folder, Overwrite overwrite);

}  // namespace rapt::text

#pragma once
// A trained encoder with its tokenizer, and texts as its tokens.
#include <string>
#include <vector>

#include "rapt/model/encoder_model.h"
#include "rapt/text/encoding.h"

namespace rapt::cli {

struct EncoderFolder {
  model::EncoderModel encoder;
  text::Tokenizer tokenizer;
};

// Throws Failure(io) that names what is missing: the folder, or its config.json.
void check_model_folder(const std::string& folder);

// Throws Failure(data) for a tokenizer with more tokens than its model.
void check_token_count(const std::string& folder, int64_t tokens, int64_t vocabulary);

// Throws Failure(io) that names what is missing, Failure(data) for a tokenizer of another model,
// Error as model::load_encoder() and text::read_tokenizer().
EncoderFolder open_encoder(const std::string& folder);

// The numbers that an encoder keeps of one token: rows of all parts of a block, and the result. A
// double, because the sizes of a config need not fit 64 bits.
double encoder_row_elements(const model::EncoderSpec& spec);

// The tokens of a text, or a pair, of at most `longest`. Longer ones are cut if `truncate`, and
// said so on stderr; else Failure(data). `names`: of the texts, in messages.
text::Encoding model_tokens(const text::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                            const std::vector<std::string>& names, int64_t longest, bool truncate);

}  // namespace rapt::cli

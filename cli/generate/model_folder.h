#pragma once
// A language model with its tokenizer, from a folder as Hugging Face transformers has it, or from
// that of a run of `rapt train`.
#include <string>
#include <vector>

#include "rapt/generation/generator.h"
#include "rapt/model/decoder_model.h"
#include "rapt/text/tokenizer.h"

namespace rapt::cli {

// Throws Failure(io) with a hint for a folder that is none or has no tokenizer.json, and Error as
// text::read_tokenizer().
text::Tokenizer read_folder_tokenizer(const std::string& folder);

// Throws Failure(memory) before memory is taken if the model and the generator that continues
// `prompt` tokens do not fit, and Error as model::load_decoder_info().
void check_generation_memory(const std::string& folder, DType dtype,
                             const generation::GeneratorOptions& options, int64_t prompt);

// Throws Error as model::load_decoder(), and Failure(data) for a model with fewer tokens than the
// tokenizer.
model::DecoderModel read_folder_model(const std::string& folder, const text::Tokenizer& tokenizer,
                                      DType dtype);

// The tokens of a prompt. `option`: that it came from. Throws Failure(data) that names all
// characters which the tokenizer lacks, and Error(argument) for a text that is not UTF-8.
std::vector<int64_t> encode_prompt(const text::Tokenizer& tokenizer, const std::string& option,
                                   const std::string& prompt);

}  // namespace rapt::cli

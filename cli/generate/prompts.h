#pragma once
// The texts that `rapt generate` continues: those of --prompt, lines of its files, or a whole file.
#include <string>
#include <vector>

#include "cli/generate/generate_arguments.h"
#include "rapt/text/tokenizer.h"

namespace rapt::cli {

struct Prompt {
  std::string text;  // empty: none was given, or an empty line or file
  std::string name;  // for messages
};

// The prompts in the order of the command line, at least one. Throws Failure(io) for a file that
// cannot be read, and Failure(data) for --prompt @F without a line.
std::vector<Prompt> read_prompts(const GenerateArguments& arguments);

// The tokens of a prompt. Without a text they are the first of `stop_tokens`: behind the token that
// ends texts a new one begins, as in training on documents one after the other. Throws
// Failure(data) where there is none, for characters that the tokenizer lacks (all are named), and
// Error(argument) for a text that is not UTF-8.
std::vector<int64_t> prompt_tokens(const Prompt& prompt, const text::Tokenizer& tokenizer,
                                   const std::vector<int64_t>& stop_tokens);

// Throws Failure(data) for a prompt of more tokens than the model has positions: before any prompt
// is continued.
void check_prompt_length(const Prompt& prompt, int64_t tokens, int64_t positions);

}  // namespace rapt::cli

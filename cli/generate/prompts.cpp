#include "cli/generate/prompts.h"

#include <fmt/format.h>

#include "cli/generate/model_folder.h"
#include "cli/input/lines.h"
#include "cli/input/tensor_input.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

std::string content_of(const std::string& option, const std::string& path) {
  MemoryBudget budget(-1);
  return read_text_file(option, path, budget);
}

void add_lines(const std::string& path, std::vector<Prompt>& prompts) {
  int64_t number = 0;
  for (const std::string& line : lines_of(content_of("--prompt", path)))
    prompts.push_back({line, fmt::format("line {} of {}", ++number, path)});
  if (number == 0)
    throw Failure(Exit::data, fmt::format("--prompt @{}: the file has no line", path));
}

}  // namespace

std::vector<Prompt> read_prompts(const GenerateArguments& a) {
  if (!a.prompt_file.empty())
    return {{content_of("--prompt-file", a.prompt_file), "--prompt-file"}};
  if (a.prompts.empty()) return {{"", "--prompt"}};
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < a.prompts.size(); ++i) {
    const std::string& given = a.prompts[i];
    if (given.starts_with('@'))
      add_lines(given.substr(1), prompts);
    else
      prompts.push_back(
          {given, a.prompts.size() == 1 ? "--prompt" : fmt::format("--prompt {}", i + 1)});
  }
  return prompts;
}

std::vector<int64_t> prompt_tokens(const Prompt& prompt, const text::Tokenizer& tokenizer,
                                   const std::vector<int64_t>& stop_tokens) {
  if (!prompt.text.empty()) return encode_prompt(tokenizer, prompt.name, prompt.text);
  if (stop_tokens.empty())
    throw Failure(
        Exit::data,
        prompt.name +
            ": there is no prompt, and the model has no token between texts to begin with",
        "--prompt TEXT gives the beginning");
  return {stop_tokens.front()};
}

void check_prompt_length(const Prompt& prompt, int64_t tokens, int64_t positions) {
  if (tokens > positions)
    throw Failure(Exit::data, fmt::format("{}: {} tokens; the model has {} positions", prompt.name,
                                          tokens, positions));
}

}  // namespace rapt::cli

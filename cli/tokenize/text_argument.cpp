#include "cli/tokenize/text_argument.h"

#include <filesystem>
#include <system_error>

#include "cli/input/tensor_input.h"
#include "cli/process/failure.h"
#include "rapt/text/tokenizer_file.h"

namespace rapt::cli {

std::string text_of_argument(const std::string& argument) {
  if (!argument.starts_with('@')) return argument;
  MemoryBudget budget(-1);
  return read_text_file("TEXT", argument.substr(1), budget);
}

text::Tokenizer tokenizer_at(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    throw Failure(Exit::io, path + ": no such folder or file",
                  "expected a folder with tokenizer.json, or the file itself");
  if (!std::filesystem::is_directory(path, ignored)) {
    MemoryBudget budget(-1);
    return text::parse_tokenizer(read_text_file("tokenizer", path, budget), path);
  }
  if (!std::filesystem::exists(path + "/tokenizer.json", ignored))
    throw Failure(Exit::io, path + ": has no tokenizer.json",
                  "vocab.txt and merges.txt alone are not read; transformers writes tokenizer.json "
                  "by save_pretrained()");
  return text::read_tokenizer(path);
}

}  // namespace rapt::cli

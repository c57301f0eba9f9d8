#include "cli/tokenize/text_argument.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "cli/input/tensor_input.h"
#include "cli/process/failure.h"
#include "rapt/error.h"
#include "rapt/text/tokenizer_file.h"

namespace rapt::cli {
namespace {

bool fails_alone(const text::Tokenizer& tokenizer, const std::string& text) {
  try {
    tokenizer.encode(text);
    return false;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

std::string text_of_argument(const std::string& argument) {
  if (!argument.starts_with('@')) return argument;
  MemoryBudget budget(-1);
  return read_text_file("TEXT", argument.substr(1), budget);
}

std::vector<std::string> names_of_texts(const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const std::string& argument : arguments)
    names.push_back(argument.starts_with('@') ? argument.substr(1)
                    : arguments.size() > 1    ? fmt::format("text {}", names.size() + 1)
                                              : "the text");
  return names;
}

text::Encoding encode_named(const text::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                            const std::vector<std::string>& names,
                            const text::EncodeOptions& options) {
  try {
    return encode_texts(tokenizer, texts[0],
                        texts.size() > 1 ? std::optional<std::string_view>(texts[1]) : std::nullopt,
                        options);
  } catch (const Error& error) {
    constexpr std::string_view kText = "text";
    if (error.argument() != kText) throw;
    // The library does not say which text of a pair it is.
    const std::string& name = names[fails_alone(tokenizer, texts[0]) ? 0 : 1];
    throw Error(error.code(), name + (error.what() + kText.size()), kText);
  }
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

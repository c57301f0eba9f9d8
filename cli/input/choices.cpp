#include "cli/input/choices.h"

#include <sstream>

#include "check/problem/descriptor.h"
#include "rapt/catalogue.h"

namespace rapt::cli {
namespace {

// CLI11 cannot store words that help does not show. The name of a check, which is never shown,
// stores them.
constexpr const char* kMark = "offered:";

std::vector<std::string> words_of(std::span<const Declaration* const> declarations) {
  std::vector<std::string> words;
  for (const Declaration* declaration : declarations) {
    const std::string name = declaration->name;
    bool required = false;
    for (const Parameter& parameter : declaration->parameters) required |= parameter.required;
    if (!required) words.push_back(name);
    if (!declaration->parameters.empty()) words.push_back(name + ":");
    if (required) continue;
    for (const Parameter& parameter : declaration->parameters)
      for (const char* choice : parameter.choices) words.push_back(name + ":" + choice);
  }
  return words;
}

}  // namespace

CLI::Option* offer(CLI::Option* option, const std::vector<std::string>& words) {
  std::string note = kMark;
  for (const std::string& word : words) note += " " + word;
  return option->check(CLI::Validator([](std::string&) { return std::string(); }, "", note));
}

std::vector<std::string> offered(CLI::Option& option) {
  std::vector<std::string> words;
  for (int i = 0;; ++i) {
    try {
      std::istringstream note(option.get_validator(i)->get_name());
      std::string word;
      if (!(note >> word) || word != kMark) continue;
      while (note >> word) words.push_back(word);
    } catch (const CLI::OptionNotFound&) {  // no further check
      return words;
    }
  }
}

std::vector<std::string> mask_words() {
  // On the command line, combined masks are written with ! & |.
  std::vector<std::string> words = words_of(check::leaf_masks());
  words.push_back("file:");
  return words;
}

std::vector<std::string> score_words() { return words_of(score_declarations()); }
std::vector<std::string> normalizer_words() { return words_of(normalizer_declarations()); }
std::vector<std::string> method_words() { return words_of(method_declarations()); }

std::string usual_texts(std::span<const Declaration* const> declarations) {
  std::string texts;
  for (const Declaration* declaration : declarations)
    texts += (texts.empty() ? "" : ", ") + check::example_text(*declaration);
  return texts;
}

std::vector<std::string> float_words() {
  std::vector<std::string> words;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    words.push_back(name_of(dtype));
  return words;
}

std::vector<std::string> dtype_words() {
  std::vector<std::string> words = float_words();
  for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean})
    words.push_back(name_of(dtype));
  return words;
}

}  // namespace rapt::cli

#include "cli/input/bracketed_words.h"

#include <utility>

namespace rapt::cli {
namespace {

constexpr char kWordMark = '\0';  // no word of a command line has it

}  // namespace

std::string marked_word(std::string word) {
  if (word.starts_with('[') && word.ends_with(']')) word += kWordMark;
  return word;
}

std::string unmarked_word(std::string word) {
  if (word.ends_with(kWordMark)) word.pop_back();
  return word;
}

void take_words_whole(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    // Else it cuts "--name=[a,b]", and takes the words that follow its value, too.
    if (!option->get_positional()) option->allow_extra_args(false);
    option->transform(CLI::Validator(
        [](std::string& value) {
          value = unmarked_word(std::move(value));
          return std::string();
        },
        ""));
  }
}

}  // namespace rapt::cli

#pragma once
// CLI11 takes a value "[a,b]" as a list: "a" and "b". These keep such words as they are given.
#include <CLI/CLI.hpp>
#include <string>

namespace rapt::cli {

// The word, with a mark behind it if it stands in brackets, so that CLI11 sees no list.
std::string marked_word(std::string word);
// The word without its mark.
std::string unmarked_word(std::string word);

// Options of the command take one word each time they are given, however often that is. Values
// lose their marks.
void take_words_whole(CLI::App& command);

}  // namespace rapt::cli

#pragma once
// Words that end a text as it is written, whatever tokens they are cut into.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rapt::cli {

class StopWords {
 public:
  explicit StopWords(std::vector<std::string> words) : words_(std::move(words)) {}

  // Adds characters to the text. Returns what of it can be shown: all before the first word, and
  // nothing that a word may begin with.
  std::string next(std::string_view characters);
  // Has the text a word? It then ends before it.
  bool found() const { return found_; }
  // The rest of a text that has ended without a word.
  std::string finish() { return std::exchange(pending_, {}); }

 private:
  std::vector<std::string> words_;
  std::string pending_;  // the beginning of a word, perhaps
  bool found_ = false;
};

}  // namespace rapt::cli

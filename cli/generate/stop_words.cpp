#include "cli/generate/stop_words.h"

#include <algorithm>

namespace rapt::cli {
namespace {

// The longest end of a text with which a word begins, but not the whole word.
size_t begun_length(std::string_view text, std::string_view word) {
  for (size_t length = std::min(text.size(), word.size() - 1); length > 0; --length)
    if (text.ends_with(word.substr(0, length))) return length;
  return 0;
}

}  // namespace

std::string StopWords::next(std::string_view characters) {
  if (found_) return {};
  pending_ += characters;
  size_t end = std::string::npos, held = 0;
  for (const std::string& word : words_) {
    end = std::min(end, pending_.find(word));
    held = std::max(held, begun_length(pending_, word));
  }
  found_ = end != std::string::npos;
  std::string shown = pending_.substr(0, found_ ? end : pending_.size() - held);
  pending_.erase(0, found_ ? pending_.size() : shown.size());
  return shown;
}

}  // namespace rapt::cli

#include "text/added_tokens.h"

#include <utility>

#include "text/space_runs.h"

namespace rapt::text {
TokenSearch::TokenSearch(const std::vector<AddedToken>& tokens, bool normalized) {
  std::vector<LongestMatch::Entry> contents;
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    contents.push_back({token.content, static_cast<uint32_t>(entries_.size())});
    entries_.push_back({token.id, token.lstrip, token.rstrip});
    begins_[static_cast<uint8_t>(token.content[0])] = true;
  }
  contents_ = LongestMatch(std::move(contents));
}

std::optional<TokenSearch::Found> TokenSearch::next(std::string_view text, size_t from) const {
  if (entries_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<uint8_t>(text[at])]) continue;
    const LongestMatch::Found match = contents_.find(text.substr(at));
    if (match.bytes == 0) continue;
    const Entry& entry = entries_[match.id];
    const size_t end = at + match.bytes;
    return Found{entry.lstrip ? begin_of_space(text, from, at) : at,
                 entry.rstrip ? end_of_space(text, end) : end, entry.id};
  }
  return std::nullopt;
}

}  // namespace rapt::text

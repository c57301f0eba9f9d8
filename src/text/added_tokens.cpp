#include "text/added_tokens.h"

#include <algorithm>

#include "text/space_runs.h"

namespace rapt::text {
TokenSearch::TokenSearch(const std::vector<AddedToken>& tokens, bool normalized) {
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    entries_.push_back({token.content, token.id, token.lstrip, token.rstrip});
    begins_[static_cast<uint8_t>(token.content[0])] = true;
  }
  std::ranges::sort(entries_, {}, &Entry::content);
}

const TokenSearch::Entry* TokenSearch::longest_at(std::string_view text, size_t at) const {
  const Entry* found = nullptr;
  auto begin = entries_.begin(), end = entries_.end();
  // [begin, end): the tokens that begin with the `length` bytes of the text at `at`.
  for (size_t length = 0; begin != end; ++length) {
    if (begin->content.size() == length) {
      found = &*begin;
      ++begin;
    }
    if (at + length == text.size()) break;
    const auto byte_of = [length](const Entry& entry) {
      return static_cast<uint8_t>(entry.content[length]);
    };
    const auto byte = static_cast<uint8_t>(text[at + length]);
    begin = std::ranges::lower_bound(begin, end, byte, {}, byte_of);
    end = std::ranges::upper_bound(begin, end, byte, {}, byte_of);
  }
  return found;
}

std::optional<TokenSearch::Found> TokenSearch::next(std::string_view text, size_t from) const {
  if (entries_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<uint8_t>(text[at])]) continue;
    const Entry* const entry = longest_at(text, at);
    if (entry == nullptr) continue;
    const size_t end = at + entry->content.size();
    return Found{entry->lstrip ? begin_of_space(text, from, at) : at,
                 entry->rstrip ? end_of_space(text, end) : end, entry->id};
  }
  return std::nullopt;
}

}  // namespace rapt::text

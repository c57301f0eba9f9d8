#pragma once
// Added tokens, which a text is searched for before the model sees it.
//
// Those that the file does not call normalized are found first, and the others in what remains, as
// the package tokenizers does. Of several that begin at one place the longest counts.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/longest_match.h"

namespace rapt::text {

struct AddedToken {
  std::string content;
  uint32_t id;
  bool special;
  bool normalized;
  bool lstrip = false, rstrip = false;  // does it take the white space before it, behind it?
};

// Finds some tokens in a text.
class TokenSearch {
 public:
  struct Found {
    size_t begin, end;  // with the white space that the token takes
    uint32_t id;
  };

  TokenSearch() = default;
  // Those of the tokens for which `normalized` holds, or does not hold.
  TokenSearch(const std::vector<AddedToken>& tokens, bool normalized);

  // The first one at or after `from`, where white space before it begins, too.
  std::optional<Found> next(std::string_view text, size_t from) const;

 private:
  struct Entry {
    uint32_t id;
    bool lstrip, rstrip;
  };

  std::vector<Entry> entries_;
  LongestMatch contents_;           // ids are indices into entries_
  std::array<bool, 256> begins_{};  // does a token begin with the byte?
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // No two have the same content, and no content is empty.
  explicit AddedTokens(std::vector<AddedToken> tokens)
      : tokens_(std::move(tokens)), as_written_(tokens_, false), normalized_(tokens_, true) {}

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  // Calls on_text(begin, end) for what is between the tokens of a text, where it is not empty, and
  // on_token(id, begin, end) for these, in order.
  template <class OnText, class OnToken>
  void split(std::string_view text, OnText on_text, OnToken on_token) const {
    split_by(
        as_written_, text, 0,
        [&](size_t begin, size_t end) {
          split_by(normalized_, text.substr(0, end), begin, on_text, on_token);
        },
        on_token);
  }

 private:
  template <class OnText, class OnToken>
  static void split_by(const TokenSearch& search, std::string_view text, size_t begin,
                       OnText on_text, OnToken on_token) {
    while (const std::optional<TokenSearch::Found> found = search.next(text, begin)) {
      if (begin < found->begin) on_text(begin, found->begin);
      on_token(found->id, found->begin, found->end);
      begin = found->end;
    }
    if (begin < text.size()) on_text(begin, text.size());
  }

  std::vector<AddedToken> tokens_;
  TokenSearch as_written_, normalized_;
};

}  // namespace rapt::text

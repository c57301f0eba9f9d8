#pragma once
// The longest text of a table that a word begins with. Sorted, and not hashed: however
// a file chooses its texts, a search takes a bisection for each byte of the longest match.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rapt::text {

class LongestMatch {
 public:
  struct Entry {
    std::string text;  // not empty
    uint32_t id;
  };
  struct Found {
    size_t bytes;  // 0: none
    uint32_t id;
  };

  LongestMatch() = default;
  explicit LongestMatch(std::vector<Entry> entries) : entries_(std::move(entries)) {
    std::ranges::sort(entries_, {}, &Entry::text);
    for (const Entry& entry : entries_) ++firsts_[static_cast<uint8_t>(entry.text[0]) + size_t{1}];
    for (size_t i = 1; i < firsts_.size(); ++i) firsts_[i] += firsts_[i - 1];
  }

  bool empty() const { return entries_.empty(); }

  // `word` is not empty.
  Found find(std::string_view word) const {
    Found found{0, 0};
    const auto lead = static_cast<uint8_t>(word[0]);
    auto begin = entries_.begin() + firsts_[lead],
         end = entries_.begin() + firsts_[lead + size_t{1}];
    // [begin, end): the texts that share the first `length` bytes with the word.
    for (size_t length = 1; begin != end; ++length) {
      if (begin->text.size() == length) {
        found = {length, begin->id};
        ++begin;
      }
      if (length == word.size()) break;
      const auto byte = static_cast<uint8_t>(word[length]);
      const auto byte_of = [length](const Entry& entry) {
        return static_cast<uint8_t>(entry.text[length]);
      };
      begin = std::ranges::lower_bound(begin, end, byte, {}, byte_of);
      end = std::ranges::upper_bound(begin, end, byte, {}, byte_of);
    }
    return found;
  }

 private:
  std::vector<Entry> entries_;           // by text
  std::array<ptrdiff_t, 257> firsts_{};  // where the texts begin that begin with a byte
};

}  // namespace rapt::text

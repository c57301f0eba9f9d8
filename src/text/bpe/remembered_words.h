#pragma once
// Words of a text that are encoded already, and where their ids are. A word has a few places in a
// table of hashes, and is not remembered where all are taken: nobody who makes a text can make it
// slow.
#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace rapt::text {

class RememberedWords {
 public:
  struct Range {
    size_t begin, count;
  };

  // Null: not remembered. Valid until the next add().
  const Range* find(std::string_view word) const {
    if (entries_.empty() || word.size() > kLongest) return nullptr;
    const size_t first = std::hash<std::string_view>()(word);
    for (size_t i = 0; i < kPlaces; ++i) {
      const Entry& entry = entries_[(first + i) & (entries_.size() - 1)];
      if (entry.word == word) return &entry.range;
      if (entry.word.empty()) return nullptr;
    }
    return nullptr;
  }

  // `word`: not empty, not remembered, of a text that outlives this.
  void add(std::string_view word, Range range) {
    if (word.size() > kLongest) return;
    if (2 * (count_ + 1) > entries_.size()) grow();
    put({word, range});
  }

 private:
  static constexpr size_t kLongest = 64;  // bytes; longer words hardly come again
  static constexpr size_t kPlaces = 16;   // of a word, one after the other

  struct Entry {
    std::string_view word;  // empty: the place is free
    Range range;
  };

  void put(const Entry& added) {
    const size_t first = std::hash<std::string_view>()(added.word);
    for (size_t i = 0; i < kPlaces; ++i) {
      Entry& entry = entries_[(first + i) & (entries_.size() - 1)];
      if (!entry.word.empty()) continue;
      entry = added;
      ++count_;
      return;
    }
  }

  void grow() {
    const std::vector<Entry> old = std::exchange(
        entries_, std::vector<Entry>(entries_.empty() ? 4 * kPlaces : 2 * entries_.size()));
    count_ = 0;
    for (const Entry& entry : old)
      if (!entry.word.empty()) put(entry);
  }

  std::vector<Entry> entries_;  // at least half of them free; a power of two
  size_t count_ = 0;
};

}  // namespace rapt::text

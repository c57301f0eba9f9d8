#pragma once
// The merges of a BPE by their pair. Sorted, and not hashed: nobody who makes a file can make it
// slow.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace rapt::text {

struct Merge {
  uint32_t left, right;  // token ids
  uint32_t id;           // of the token that they become
};

class MergeTable {
 public:
  struct Entry {
    uint32_t right, rank, id;
  };

  // Merges by rank. Of two with the same pair the later counts. `tokens`: more than any id.
  MergeTable(std::span<const Merge> merges, size_t tokens) : first_(tokens + 1) {
    for (const Merge& merge : merges) ++first_[merge.left + 1];
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    entries_.resize(merges.size());
    // From the last to the first, so that a stable sort leaves the later one of a pair in front.
    for (size_t rank = merges.size(); rank-- > 0;) {
      const Merge& merge = merges[rank];
      entries_[next[merge.left]++] = {merge.right, static_cast<uint32_t>(rank), merge.id};
    }
    for (size_t left = 0; left < tokens; ++left)
      std::stable_sort(entries_.begin() + first_[left], entries_.begin() + first_[left + 1],
                       [](const Entry& a, const Entry& b) { return a.right < b.right; });
  }

  // Null: the pair is not merged.
  const Entry* find(uint32_t left, uint32_t right) const {
    const auto end = entries_.begin() + first_[left + 1];
    const auto at = std::lower_bound(entries_.begin() + first_[left], end, right,
                                     [](const Entry& e, uint32_t r) { return e.right < r; });
    return at != end && at->right == right ? &*at : nullptr;
  }

 private:
  std::vector<uint32_t> first_;  // [tokens + 1]: where the entries of a left token begin
  std::vector<Entry> entries_;
};

}  // namespace rapt::text

#pragma once
// Merges the tokens of one piece: always the pair of the lowest rank, of several such the first.
//
// A heap holds the pairs that can be merged, so that a piece of n bytes takes O(n log n) time.
#include <cstdint>
#include <vector>

#include "text/bpe/merge_table.h"

namespace rapt::text {

class PieceMerger {
 public:
  explicit PieceMerger(const MergeTable& merges) : merges_(merges) {}

  void clear() { symbols_.clear(); }
  void add(uint32_t id) { symbols_.push_back({.id = id}); }
  // Merges what was added since clear(), and appends the ids to `ids`.
  void merge(std::vector<int64_t>& ids);

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);
  struct Symbol {
    uint32_t id;
    bool merged = false;  // into a symbol before it
    size_t previous = kNone, next = kNone;
  };
  struct Candidate {
    size_t at;  // of the left symbol
    uint32_t rank, left, right, id;
  };

  void offer(size_t at);  // the pair that begins there, if it can be merged
  void merge_at(const Candidate& candidate);

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace rapt::text

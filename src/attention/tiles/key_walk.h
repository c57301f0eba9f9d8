#pragma once
// A walk over the blocks of keys that some queries of a head may attend to. It asks the masks for
// runs of keys, so that a block in a gap between two runs is neither loaded nor packed. All passes
// over query tiles find their keys by it. The code is in the header because it is inlined into the
// loop over blocks.
#include <algorithm>

#include "attention/tiles/bound_masks.h"

namespace rapt {

// All keys of a sequence.
inline constexpr KeyRange kAllKeys{0, INT64_MAX};

class KeyWalk {
 public:
  // Blocks have `length` keys, counted from `origin`, which is at most within.begin. `within` holds
  // the keys of interest.
  KeyWalk(const BoundMasks& masks, Positions queries, KeyRange within, int64_t length,
          int64_t origin = 0) noexcept
      : masks_(masks),
        queries_(queries),
        end_(within.end),
        length_(length),
        origin_(origin),
        run_{within.begin, masks.empty() ? within.end : within.begin},
        next_(block_of(within.begin)) {}

  // Moves to the next block; false: there is none.
  bool next() noexcept {
    const int64_t from = std::max(next_, run_.begin);
    if (from >= end_) return false;
    if (from >= run_.end && !ask(from)) return false;
    begin_ = run_.begin < next_ + length_ ? next_ : block_of(run_.begin);
    next_ = begin_ + length_;
    return true;
  }

  // The first key of the block; it may lie before `within`.
  int64_t begin() const noexcept { return begin_; }

  // The smallest range that holds the keys of the block that some query may attend to. To be called
  // at most once per block, before next().
  KeyRange attended() noexcept {
    KeyRange range{std::max(begin_, run_.begin), std::min(next_, run_.end)};
    while (run_.end < std::min(next_, end_) && ask(run_.end) && run_.begin < next_)
      range.end = std::min(next_, run_.end);
    return {range.begin, std::min(range.end, end_)};
  }

 private:
  // Finds the next run from a key on; false: there is none.
  bool ask(int64_t from) noexcept {
    run_ = masks_.next_run(queries_, from);
    if (run_.begin < std::min(run_.end, end_)) return true;
    run_ = {end_, end_};
    return false;
  }

  // The first key of the block that holds `key`. Small calls save a division, which takes as long
  // as ten additions.
  int64_t block_of(int64_t key) const noexcept {
    const int64_t past = key - origin_;
    return past < length_ ? origin_ : key - past % length_;
  }

  const BoundMasks& masks_;
  const Positions queries_;
  const int64_t end_, length_, origin_;
  KeyRange run_;       // the current run
  int64_t next_;       // where the next block begins, unless it lies in a gap
  int64_t begin_ = 0;  // of the current block
};

}  // namespace rapt

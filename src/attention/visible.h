#pragma once
// Which keys a tile of queries sees: the masks of a call, bound to one head and combined by "and".
#include <algorithm>
#include <cstdint>
#include <span>

#include "rapt/mask/mask.h"

namespace rapt {

class Visible {
 public:
  // Binds `masks` to a head; `bound` has room for them.
  Visible(std::span<const Mask* const> masks, const Head& head, BoundMask* bound)
      : bound_(bound, masks.size()), k_len_(head.k_len) {
    for (size_t i = 0; i < masks.size(); ++i) {
      bound_[i] = BoundMask{masks[i], nullptr, {}, head.q_len, head.k_len};
      masks[i]->bind(head, bound_[i]);
    }
  }

  // No query of the tile sees a key outside of this range.
  KeyRange key_range(Positions queries) const noexcept {
    KeyRange range{0, k_len_};
    for (const BoundMask& b : bound_) {
      const KeyRange r = b.mask->key_range(b, queries);
      range = {std::max(range.begin, r.begin), std::min(range.end, r.end)};
    }
    return {range.begin, std::max(range.begin, range.end)};
  }

  // How much of the tile is allowed. For `some`, bits [keys.count] says which pairs.
  Cover cover(Positions queries, Positions keys, uint64_t* bits) const noexcept {
    bool partial = false;
    for (const BoundMask& b : bound_) {
      const Cover c = b.mask->cover(b, queries, keys);
      if (c == Cover::none) return Cover::none;
      if (c == Cover::all) continue;
      if (!partial) std::fill_n(bits, keys.count, low_bits(queries.count));
      partial = true;
      b.mask->exclude(b, queries, keys, bits);
    }
    return partial ? Cover::some : Cover::all;
  }

 private:
  std::span<BoundMask> bound_;
  int64_t k_len_;
};

}  // namespace rapt

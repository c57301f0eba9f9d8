#pragma once
// The masks of a call, bound to one head and combined by "and": which keys the queries of a tile
// may attend to. The code is in the header because it is inlined into the loop over tiles.
#include <algorithm>
#include <cstdint>
#include <span>

#include "rapt/mask/parts.h"

namespace rapt {

class BoundMasks {
 public:
  // The number of BoundMask slots that the masks of a call need.
  static int64_t slots(std::span<const Mask* const> masks) {
    int64_t count = 0;
    for (const Mask* mask : masks) count += mask->bound_slots();
    return count;
  }

  BoundMasks() = default;
  // Binds `masks` to a head; `bound` has room for slots(masks) entries.
  BoundMasks(std::span<const Mask* const> masks, const Head& head, BoundMask* bound)
      : masks_(masks), bound_(bound), k_len_(head.k_len) {
    for (const Mask* mask : masks) {
      *bound = BoundMask{mask, nullptr, {}, head.q_len, head.k_len};
      mask->bind(head, bound);
      bound += mask->bound_slots();
    }
  }

  // Masks that are bound already.
  static BoundMasks of_bound(std::span<const Mask* const> masks, const BoundMask* bound,
                             int64_t k_len) noexcept {
    BoundMasks all;
    all.masks_ = masks, all.bound_ = bound, all.k_len_ = k_len;
    return all;
  }

  bool empty() const noexcept { return masks_.empty(); }

  // A range that holds every key that some query of the tile may attend to.
  KeyRange key_range(Positions queries) const noexcept {
    KeyRange range{0, k_len_};
    const BoundMask* bound = bound_;
    for (const Mask* mask : masks_) {
      const KeyRange r = mask->key_range(*bound, queries);
      bound += mask->bound_slots();
      range = {std::max(range.begin, r.begin), std::min(range.end, r.end)};
    }
    return {range.begin, std::max(range.begin, range.end)};
  }

  // The next run of keys from `from` on that some of the queries may attend to; see
  // Mask::next_run().
  KeyRange next_run(Positions queries, int64_t from) const noexcept {
    return common_run(masks_.size(), from, k_len_, [&](size_t i, int64_t at) {
      const BoundMask* bound = bound_;
      for (size_t before = 0; before < i; ++before) bound += masks_[before]->bound_slots();
      return masks_[i]->next_run(*bound, queries, at);
    });
  }

  // The cover of a tile. For Cover::some, bits [keys.count] say which queries may attend to each
  // key.
  Cover cover(Positions queries, Positions keys, uint64_t* bits) const noexcept {
    bool partial = false;
    const BoundMask* bound = bound_;
    for (const Mask* mask : masks_) {
      const BoundMask& b = *bound;
      bound += mask->bound_slots();
      const Cover c = mask->cover(b, queries, keys);
      if (c == Cover::none) return Cover::none;
      if (c == Cover::all) continue;
      if (!partial) std::fill_n(bits, keys.count, low_bits(queries.count));
      partial = true;
      mask->exclude(b, queries, keys, bits);
    }
    return partial ? Cover::some : Cover::all;
  }

 private:
  std::span<const Mask* const> masks_;
  const BoundMask* bound_ = nullptr;
  int64_t k_len_ = 0;
};

}  // namespace rapt

#pragma once
// Which keys of a block a tile of queries attends to.
#include <algorithm>

#include "attention/tiles/bound_masks.h"
#include "attention/tiles/query_tile.h"

namespace rapt {

struct TileKeys {
  Positions keys{0, 1, 0};   // none: the tile attends to no key of the block
  bool partial = false;      // are some pairs masked out?
  uint64_t* bits = nullptr;  // [keys]: which pairs are allowed, if partial
};

// From the first to the last key of the block that some query of the tile attends to. Products take
// keys in steps from the begin of the block, so that a masked key can stand at either end. `bits`:
// room for [block_keys].
template <class E>
TileKeys keys_of(const BoundMasks& masks, const QueryTile<E>& tile, const KeyBlock& block,
                 int64_t step, uint64_t* bits) noexcept {
  int64_t begin = std::max(block.begin, tile.range.begin);
  int64_t end = std::min(block.end, tile.range.end);
  if (begin >= end) return {};
  // Keys go to the products in steps from the block's begin. A key more than the tile sees is an
  // excluded one.
  begin -= (begin - block.begin) & (step - 1);
  end = std::min(block.end, end + (-(end - block.begin) & (step - 1)));
  const Cover cover = masks.cover(tile.positions, {begin, 1, end - begin}, bits);
  if (cover == Cover::none) return {};
  if (cover == Cover::some) {  // no work for keys at either end that nobody sees
    const auto unseen = [&](int64_t at, int64_t count) {
      uint64_t any = 0;
      for (int64_t j = 0; j < count; ++j) any |= bits[at + j];
      return any == 0;
    };
    while (begin + step <= end && unseen(0, step)) begin += step, bits += step;
    for (int64_t last = step; begin < end; last = step) {
      if (((end - begin) & (step - 1)) != 0) last = (end - begin) & (step - 1);
      if (!unseen(end - begin - last, last)) break;
      end -= last;
    }
    if (begin >= end) return {};
  }
  return {{begin, 1, end - begin}, cover == Cover::some, bits};
}

}  // namespace rapt

#pragma once
// The keys of a block that a query tile attends to, and which pairs of them are masked out. The
// step that computes masked scores returns them to the steps that read these scores. The code is in
// the header because it is a template over E.
#include <algorithm>

#include "attention/tiles/bound_masks.h"
#include "attention/tiles/key_walk.h"
#include "attention/tiles/query_tile.h"

namespace rapt {

struct TileKeys {
  Positions positions{0, 1, 0};
  bool partial = false;      // some pairs are masked out
  uint64_t* bits = nullptr;  // [positions.count]: which queries may attend, if partial

  // Whether the tile attends to no key.
  bool none() const noexcept { return positions.count == 0; }
  // Which queries may attend to each key; null: all.
  const uint64_t* allowed() const noexcept { return partial ? bits : nullptr; }
};

// A walk over the blocks of `length` keys within `within` that some query of the tiles attends to.
// Tiles follow each other without a gap; one alone may have any step.
template <class E>
KeyWalk walk_tiles(const BoundMasks& masks, const QueryTile<E>* tiles, int64_t count,
                   KeyRange within, int64_t length) noexcept {
  KeyRange range{INT64_MAX, 0};
  for (int64_t i = 0; i < count; ++i) {
    if (tiles[i].range.begin == tiles[i].range.end) continue;
    range = {std::min(range.begin, tiles[i].range.begin), std::max(range.end, tiles[i].range.end)};
  }
  Positions queries = tiles[0].positions;
  if (count > 1) queries.count = tiles[count - 1].positions.last() + 1 - queries.start;
  return {masks,
          queries,
          {std::max(range.begin, within.begin), std::min(range.end, within.end)},
          length};
}

// The keys from the first to the last key of the block that some query of the tile attends to. The
// range is widened to whole steps of the route, counted from the start of the block; the added keys
// are masked out. `bits` has room for [block_keys].
template <class E>
TileKeys keys_of(const BoundMasks& masks, const QueryTile<E>& tile, const KeyBlock& block,
                 int64_t step, uint64_t* bits) noexcept {
  int64_t begin = std::max(block.attended.begin, tile.range.begin);
  int64_t end = std::min(block.attended.end, tile.range.end);
  if (begin >= end) return {};
  // Round both ends outwards to whole steps; the added keys are masked out.
  begin -= (begin - block.begin) & (step - 1);
  end = std::min(block.end, end + (-(end - block.begin) & (step - 1)));
  const Cover cover = masks.cover(tile.positions, {begin, 1, end - begin}, bits);
  if (cover == Cover::none) return {};
  if (cover == Cover::some) {  // trim steps at both ends that no query attends to
    const auto unattended = [&](int64_t at, int64_t count) {
      uint64_t any = 0;
      for (int64_t j = 0; j < count; ++j) any |= bits[at + j];
      return any == 0;
    };
    while (begin + step <= end && unattended(0, step)) begin += step, bits += step;
    for (int64_t last = step; begin < end; last = step) {
      if (((end - begin) & (step - 1)) != 0) last = (end - begin) & (step - 1);
      if (!unattended(end - begin - last, last)) break;
      end -= last;
    }
    if (begin >= end) return {};
  }
  return {{begin, 1, end - begin}, cover == Cover::some, bits};
}

}  // namespace rapt

#pragma once
// Tiles of masks whose pairs come in blocks. Queries are cut into rows of query_block positions,
// keys into blocks of key_block. A mask says which key blocks a row attends to; this answers for a
// tile, whatever rows and blocks it touches.
//
// row_at(row) returns what a mask knows about a row:
//   KeyRange next(int64_t from)   the first run of attended blocks that ends behind block `from`,
//                                 cut at `from`; empty: there is none. Another may follow at once
//   int64_t end()                 behind the last attended block; 0: the row attends to nothing
#include <algorithm>

#include "mask/steps.h"
#include "rapt/mask/mask.h"

namespace rapt {

// A row of blocks, and the queries begin to end - 1 of a tile, which lie in it.
struct TileRow {
  int64_t row, begin, end;
};

struct BlockGrid {
  int64_t query_block, key_block;  // positions per block, >= 1
  int64_t offset;                  // the position of query 0 among the keys
  int64_t k_len;

  // The row of the i-th query of a tile, and the queries of the tile in it from that one on. Rows
  // before key 0 are negative. So a loop with i = end visits each row that the tile touches, and
  // none that its steps leap over; it ends where begin == queries.count.
  TileRow row_at(Positions queries, int64_t i) const noexcept {
    const int64_t position = queries[i] + offset, past = remainder_of(position, query_block);
    const int64_t end = i + queries_before(query_block - past, queries);
    return {(position - past) / query_block, i, std::min(end, queries.count)};
  }
};

// a / b, rounded up, for a >= 0.
inline int64_t blocks_of(int64_t a, int64_t b) noexcept { return a / b + (a % b != 0); }

template <class RowAt>
class BlockRows {
 public:
  BlockRows(const BlockGrid& grid, Positions queries, const RowAt& row_at) noexcept
      : grid_(grid), queries_(queries), row_at_(row_at) {}

  KeyRange key_range() const noexcept {
    int64_t begin = INT64_MAX, end = 0;
    for (TileRow at = tile_row(0); at.begin < queries_.count; at = tile_row(at.end)) {
      auto blocks = row_at_(at.row);
      if (blocks.end() == 0) continue;
      begin = std::min(begin, blocks.next(0).begin);
      end = std::max(end, blocks.end());
    }
    return end == 0 ? KeyRange{0, 0} : keys_of({begin, end});
  }

  KeyRange next_run(int64_t from) const noexcept {
    const int64_t block = from / grid_.key_block;
    KeyRange nearest{INT64_MAX, INT64_MAX};
    for (TileRow at = tile_row(0); at.begin < queries_.count; at = tile_row(at.end)) {
      const KeyRange run = row_at_(at.row).next(block);
      if (run.begin >= run.end) continue;
      if (run.begin < nearest.begin || (run.begin == nearest.begin && run.end > nearest.end))
        nearest = run;
    }
    if (nearest.begin == INT64_MAX) return {grid_.k_len, grid_.k_len};
    const KeyRange keys = keys_of(nearest);
    return {std::max(from, keys.begin), keys.end};
  }

  Cover cover(Positions keys) const noexcept {
    const int64_t begin = keys.start / grid_.key_block, end = keys.last() / grid_.key_block + 1;
    bool some = false, all = true;
    for (TileRow at = tile_row(0); at.begin < queries_.count && (all || !some);
         at = tile_row(at.end)) {
      auto blocks = row_at_(at.row);
      int64_t behind = begin;  // the row attends to the blocks before it
      for (KeyRange run = blocks.next(behind); run.begin < std::min(run.end, end);
           run = blocks.next(behind)) {
        some = true;
        if (run.begin > behind) break;
        if ((behind = run.end) >= end) break;
      }
      all = all && behind >= end;
    }
    return !some ? Cover::none : all ? Cover::all : Cover::some;
  }

  void exclude(Positions keys, uint64_t* bits) const noexcept {
    constexpr int64_t kKeys = 128;  // at a time, so that `seen` fits the stack
    for (int64_t begin = 0; begin < keys.count; begin += kKeys)
      exclude_some(keys.part(begin, std::min(begin + kKeys, keys.count)), bits + begin);
  }

 private:
  TileRow tile_row(int64_t i) const noexcept { return grid_.row_at(queries_, i); }

  // The keys of some blocks.
  KeyRange keys_of(KeyRange blocks) const noexcept {
    const int64_t begin = std::min(blocks.begin * grid_.key_block, grid_.k_len);
    const int64_t all = blocks_of(grid_.k_len, grid_.key_block);
    return {begin, blocks.end >= all ? grid_.k_len : blocks.end * grid_.key_block};
  }

  void exclude_some(Positions keys, uint64_t* bits) const noexcept {
    uint64_t seen[128] = {};
    const int64_t first = keys.start / grid_.key_block, end = keys.last() / grid_.key_block + 1;
    for (TileRow at = tile_row(0); at.begin < queries_.count; at = tile_row(at.end)) {
      const uint64_t queries = low_bits(at.end) & ~low_bits(at.begin);
      auto blocks = row_at_(at.row);
      for (KeyRange run = blocks.next(first); run.begin < std::min(run.end, end);
           run = blocks.next(run.end)) {
        const int64_t from = queries_before(run.begin * grid_.key_block - keys.start, keys);
        const int64_t to =
            run.end >= end ? keys.count
                           : std::min(queries_before(run.end * grid_.key_block - keys.start, keys),
                                      keys.count);
        for (int64_t j = from; j < to; ++j) seen[j] |= queries;
      }
    }
    for (int64_t j = 0; j < keys.count; ++j) bits[j] &= seen[j];
  }

  const BlockGrid& grid_;
  const Positions queries_;
  const RowAt& row_at_;
};

}  // namespace rapt

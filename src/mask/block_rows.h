#pragma once
// Tiles of masks whose pairs come in blocks. Queries are cut into rows of query_block positions,
// keys into blocks of key_block. A mask says which key blocks a row attends to; this answers for a
// tile, whatever rows and blocks it touches.
//
// row_at(row) returns what a mask knows about a row:
//   KeyRange next(int64_t from)   the first run of attended blocks that ends behind block `from`,
//                                 cut at `from`; empty: there is none
//   int64_t end()                 behind the last attended block; 0: the row attends to nothing
#include <algorithm>

#include "rapt/mask/mask.h"

namespace rapt {

struct BlockGrid {
  int64_t query_block, key_block;  // positions per block, >= 1
  int64_t offset;                  // the position of query 0 among the keys
  int64_t k_len;

  // Rows before key 0 are negative.
  int64_t row_of(int64_t query) const noexcept {
    const int64_t position = query + offset, row = position / query_block;
    return row * query_block > position ? row - 1 : row;
  }
};

// a / b, rounded up, for a >= 0.
inline int64_t blocks_of(int64_t a, int64_t b) noexcept { return a / b + (a % b != 0); }

template <class RowAt>
class BlockRows {
 public:
  BlockRows(const BlockGrid& grid, Positions queries, const RowAt& row_at) noexcept
      : grid_(grid),
        queries_(queries),
        row_at_(row_at),
        first_(grid.row_of(queries.start)),
        last_(grid.row_of(queries.last())) {}

  KeyRange key_range() const noexcept {
    int64_t begin = INT64_MAX, end = 0;
    for (int64_t row = first_; row <= last_; ++row) {
      auto blocks = row_at_(row);
      if (blocks.end() == 0) continue;
      begin = std::min(begin, blocks.next(0).begin);
      end = std::max(end, blocks.end());
    }
    return end == 0 ? KeyRange{0, 0} : keys_of({begin, end});
  }

  KeyRange next_run(int64_t from) const noexcept {
    const int64_t block = from / grid_.key_block;
    KeyRange nearest{INT64_MAX, INT64_MAX};
    for (int64_t row = first_; row <= last_; ++row) {
      const KeyRange run = row_at_(row).next(block);
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
    for (int64_t row = first_; row <= last_ && (all || !some); ++row) {
      auto blocks = row_at_(row);
      int64_t at = begin;  // the row attends to the blocks before it
      for (KeyRange run = blocks.next(at); run.begin < std::min(run.end, end);
           run = blocks.next(at)) {
        some = true;
        if (run.begin > at) break;
        if ((at = run.end) >= end) break;
      }
      all = all && at >= end;
    }
    return !some ? Cover::none : all ? Cover::all : Cover::some;
  }

  void exclude(Positions keys, uint64_t* bits) const noexcept {
    constexpr int64_t kKeys = 128;  // at a time, so that `seen` fits the stack
    for (int64_t begin = 0; begin < keys.count; begin += kKeys)
      exclude_some(keys.part(begin, std::min(begin + kKeys, keys.count)), bits + begin);
  }

 private:
  // The keys of some blocks.
  KeyRange keys_of(KeyRange blocks) const noexcept {
    const int64_t begin = std::min(blocks.begin * grid_.key_block, grid_.k_len);
    const int64_t all = blocks_of(grid_.k_len, grid_.key_block);
    return {begin, blocks.end >= all ? grid_.k_len : blocks.end * grid_.key_block};
  }

  void exclude_some(Positions keys, uint64_t* bits) const noexcept {
    uint64_t seen[128] = {};
    const int64_t first = keys.start / grid_.key_block, end = keys.last() / grid_.key_block + 1;
    for (int64_t row = first_; row <= last_; ++row) {
      const uint64_t queries = queries_of(row);
      if (queries == 0) continue;
      auto blocks = row_at_(row);
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

  // Which queries of the tile lie in a row.
  uint64_t queries_of(int64_t row) const noexcept {
    const int64_t begin = row * grid_.query_block - grid_.offset - queries_.start;
    const int64_t left = queries_.last() - queries_.start - begin;  // positions behind `begin`
    const uint64_t before = low_bits(queries_before(begin, queries_));
    return low_bits(left < grid_.query_block
                        ? queries_.count
                        : queries_before(begin + grid_.query_block, queries_)) &
           ~before;
  }

  const BlockGrid& grid_;
  const Positions queries_;
  const RowAt& row_at_;
  const int64_t first_, last_;
};

}  // namespace rapt

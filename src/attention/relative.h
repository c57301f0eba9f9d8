#pragma once
// Which rows of a table of relative positions a tile meets (rapt/relative.h), and what memory that
// takes.
#include <algorithm>
#include <cstdint>

#include "attention/problem.h"
#include "attention/scratch_places.h"
#include "rapt/relative.h"

namespace rapt {

// Strides of a view of [..., own dimensions], 1 or 2 of them, that broadcasts to the leading
// dimensions of the problem. False: it does not.
bool take_relative_operand(const TensorView& view, int own_rank, const Problem& problem,
                           Operand& operand);

// The least distance of a row, on a log scale; row 0 has all that are less, too.
int64_t first_distance(const RelativePositions& relative, int64_t distances, int64_t row);

// Distances and rows, as the conductor sees them. A distance more is the same row or the next one.
class DistanceRows {
 public:
  DistanceRows() = default;
  // `starts` [distances]: first_distance() of each row of a log scale.
  DistanceRows(const RelativePositions& relative, int64_t distances, const int64_t* starts)
      : starts_(relative.exact > 0 ? starts : nullptr),
        count_(distances),
        center_(relative.center == kMiddleRow ? distances / 2 : relative.center) {}

  int64_t row(int64_t distance) const noexcept {
    if (!starts_) return std::clamp<int64_t>(center_ + distance, 0, count_ - 1);
    return std::max<int64_t>(std::upper_bound(starts_, starts_ + count_, distance) - starts_, 1) -
           1;
  }
  // The least distance of a row but the first.
  int64_t start(int64_t row) const noexcept { return starts_ ? starts_[row] : row - center_; }

 private:
  const int64_t* starts_ = nullptr;
  int64_t count_ = 0, center_ = 0;
};

// The rows of `count` distances in a row: row `low` and the `rows` - 1 behind it.
struct DistanceSpan {
  int64_t first, count;  // distances
  int64_t low, rows;
  int64_t clamped;  // so many distances before another one have row `low`, too

  DistanceSpan(const DistanceRows& of, int64_t first_distance, int64_t distances) noexcept
      : first(first_distance), count(distances), low(of.row(first)) {
    rows = of.row(first + count - 1) - low + 1;
    clamped = rows == 1 ? 0 : of.start(low + 1) - first - 1;
  }
  bool one_row() const noexcept { return rows == 1; }
};

// Scratch of a worker, from its own begin; 0 for what a call does not need.
struct RelativeScratch {
  size_t by_distance = 0;  // [distances of a tile + lanes][tile queries] E
  size_t rows = 0;         // [distances of a tile][largest dims] E, of tables not read in place
  size_t bits = 0;         // [distances of a tile] uint64
  size_t unused_max = 0;   // [tile queries] E
  // For keys as lanes, where there are query_rows:
  size_t by_query = 0;  // [2 tile queries + 2 lanes][lanes] E
  size_t key_t = 0;     // [head_dim][lanes] E

  RelativeScratch() = default;
  // Of tiles of `queries` at most; takes its places from `places`.
  RelativeScratch(const Problem& p, int64_t block_keys, int64_t queries, int64_t lanes,
                  ScratchPlaces& places) {
    if (!p.relative.tables()) return;
    const auto size = static_cast<size_t>(size_of(p.result_dtype));
    const int64_t distances = block_keys + queries;
    by_distance = places.place(true, {distances + lanes, queries}, size);
    rows = places.place(true, {distances, std::max(p.head_dim, p.value_dim)}, size);
    bits = places.place(true, {distances}, sizeof(uint64_t));
    unused_max = places.place(true, {queries}, size);
    by_query = places.place(p.relative.query, {2 * (queries + lanes), lanes}, size);
    key_t = places.place(p.relative.query, {p.head_dim, lanes}, size);
  }
};

}  // namespace rapt

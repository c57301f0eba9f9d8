#pragma once
// Which rows of a distance table (rapt/relative.h) a tile of queries and keys uses.
#include <algorithm>
#include <cstdint>

#include "attention/call/relative_positions.h"

namespace rapt {

// Maps distances to table rows. The row of the next distance is the same or the next row.
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
  // The smallest distance of a row, except of the first row.
  int64_t start(int64_t row) const noexcept { return starts_ ? starts_[row] : row - center_; }

 private:
  const int64_t* starts_ = nullptr;
  int64_t count_ = 0, center_ = 0;
};

// The table rows of `count` successive distances: row `low` and the `rows` - 1 after it.
struct DistanceSpan {
  int64_t first, count;  // distances
  int64_t low, rows;
  int64_t clamped;  // the number of further distances that use row `low`

  DistanceSpan(const DistanceRows& of, int64_t first_distance, int64_t distances) noexcept
      : first(first_distance), count(distances), low(of.row(first)) {
    rows = of.row(first + count - 1) - low + 1;
    clamped = rows == 1 ? 0 : of.start(low + 1) - first - 1;
  }
  bool one_row() const noexcept { return rows == 1; }
};

}  // namespace rapt

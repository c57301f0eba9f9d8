#pragma once
// What is drawn of a heatmap: its cells after checking and pooling, and the range of their colours.
#include <cstdint>
#include <vector>

#include "rapt/viz/heatmap.h"

namespace rapt::viz {

enum class CellKind : uint8_t { value, masked, non_finite };

struct Cells {
  int64_t rows = 0, columns = 0;                    // after pooling
  int64_t rows_per_cell = 1, columns_per_cell = 1;  // of the map
  std::vector<float> values;                        // [rows, columns]
  std::vector<CellKind> kinds;                      // [rows, columns]
  ValueRange range{0, 1};
  bool any_masked = false, any_non_finite = false, any_clipped = false;

  CellKind kind(int64_t row, int64_t column) const { return kinds[row * columns + column]; }
  float value(int64_t row, int64_t column) const { return values[row * columns + column]; }
  double position(float value) const {  // in the colour map
    return (value - range.low) / (range.high - range.low);
  }
};

// Throws Error(shape, argument, unsupported) where the map contradicts itself.
void check(const Heatmap& map);

// Blocks of cells become their maximum where the map has more than max_rows or max_columns. A block
// is masked when all of it is, and not finite when any allowed value of it is not: neither a weight
// nor a fault disappears. The map must be checked.
Cells pool(const Heatmap& map, int64_t max_rows, int64_t max_columns);

// Where the colour map stands for "allowed" (Legend::allowed): seen on white and on black.
inline constexpr double kAllowedPosition = 0.7;

// A colour that no colour map has, for values that are not finite.
inline constexpr Color kNonFiniteColor{0xd6, 0x33, 0x6c};

}  // namespace rapt::viz

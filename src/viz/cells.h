#pragma once
// The drawn cells of a heatmap, after checking and pooling, and the range of their colours.
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
  std::vector<uint8_t> hatched;                     // [rows, columns]; empty: none
  ValueRange range{0, 1};
  bool any_masked = false, any_non_finite = false, any_clipped = false, any_hatched = false;

  CellKind kind(int64_t row, int64_t column) const { return kinds[row * columns + column]; }
  bool is_hatched(int64_t row, int64_t column) const {
    return any_hatched && hatched[row * columns + column];
  }
  float value(int64_t row, int64_t column) const { return values[row * columns + column]; }
  double position(float value) const {  // in the colour map
    return (value - range.low) / (range.high - range.low);
  }
};

// Throws Error(shape, argument, unsupported) if the map contradicts itself.
void check(const Heatmap& map);

// If the map has more than max_rows or max_columns, blocks of cells are replaced by their maximum.
// A block is masked if all of it is masked, and not finite if any allowed value in it is not
// finite, so that neither a weight nor an error disappears. It is hatched if all its cells that are
// not masked are. The map must be checked.
Cells pool(const Heatmap& map, int64_t max_rows, int64_t max_columns);

// The position in the colour map that stands for "allowed" (Legend::allowed): visible on white and
// on black.
inline constexpr double kAllowedPosition = 0.7;

// A colour that no colour map has, for values that are not finite.
inline constexpr Color kNonFiniteColor{0xd6, 0x33, 0x6c};

}  // namespace rapt::viz

#include "viz/cells.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "rapt/error.h"

namespace rapt::viz {
namespace {

std::string shape(int64_t rows, int64_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

void check_count(const char* what, size_t count, int64_t expected) {
  if (count == 0 || count == static_cast<size_t>(expected)) return;
  throw Error(ErrorCode::shape, std::string("heatmap: expected ") + std::to_string(expected) + " " +
                                    what + " or none, got " + std::to_string(count));
}

}  // namespace

void check(const Heatmap& map) {
  if (map.rows < 1 || map.columns < 1)
    throw Error(ErrorCode::shape, "heatmap: expected at least one row and one column, got " +
                                      shape(map.rows, map.columns));
  const auto holds_all = [&](size_t count) {
    return count / static_cast<size_t>(map.rows) == static_cast<size_t>(map.columns) &&
           count % static_cast<size_t>(map.rows) == 0;
  };
  if (!holds_all(map.values.size()))
    throw Error(ErrorCode::shape, "heatmap: expected one value per cell of " +
                                      shape(map.rows, map.columns) + ", got " +
                                      std::to_string(map.values.size()));
  if (!map.allowed.empty() && !holds_all(map.allowed.size()))
    throw Error(ErrorCode::shape, "heatmap: expected a mask with one entry per cell of " +
                                      shape(map.rows, map.columns) + " or none, got " +
                                      std::to_string(map.allowed.size()));
  if (!map.hatched.empty() && !holds_all(map.hatched.size()))
    throw Error(ErrorCode::shape, "heatmap: expected hatching with one entry per cell of " +
                                      shape(map.rows, map.columns) + " or none, got " +
                                      std::to_string(map.hatched.size()));
  check_count("row labels", map.row_labels.size(), map.rows);
  check_count("column labels", map.column_labels.size(), map.columns);
  if (map.decimals < 0 || map.decimals > 9)
    throw Error(ErrorCode::argument,
                "heatmap: expected 0 to 9 decimals, got " + std::to_string(map.decimals));
  if (map.range &&
      !(std::isfinite(map.range->low) && std::isfinite(map.range->high) &&
        std::isfinite(map.range->high - map.range->low) && map.range->low < map.range->high))
    throw Error(ErrorCode::argument, "heatmap: expected a finite range with low < high, got " +
                                         std::to_string(map.range->low) + " to " +
                                         std::to_string(map.range->high));
  for (const double positions : {map.positions_per_row, map.positions_per_column})
    if (!(positions > 0 && positions <= 1e12))
      throw Error(ErrorCode::argument,
                  "heatmap: expected positions per row and column above 0, got " +
                      std::to_string(positions));
  if (map.colors.stops.size() < 2)
    throw Error(ErrorCode::argument, "heatmap: expected a colour map of at least two stops, got " +
                                         std::to_string(map.colors.stops.size()));
  if (map.annotate == Annotate::always && std::max(map.rows, map.columns) > kMaxVectorCells)
    throw Error(ErrorCode::unsupported, "heatmap: values can be written into at most " +
                                            std::to_string(kMaxVectorCells) +
                                            " cells per side, got " + shape(map.rows, map.columns) +
                                            "; draw a part of the map, or leave the values out");
}

Cells pool(const Heatmap& map, int64_t max_rows, int64_t max_columns) {
  Cells cells;
  cells.rows_per_cell = (map.rows + max_rows - 1) / max_rows;
  cells.columns_per_cell = (map.columns + max_columns - 1) / max_columns;
  cells.rows = (map.rows + cells.rows_per_cell - 1) / cells.rows_per_cell;
  cells.columns = (map.columns + cells.columns_per_cell - 1) / cells.columns_per_cell;
  cells.values.assign(cells.rows * cells.columns, -std::numeric_limits<float>::infinity());
  cells.kinds.assign(cells.rows * cells.columns, CellKind::masked);
  if (!map.hatched.empty()) cells.hatched.assign(cells.rows * cells.columns, 1);

  float least = std::numeric_limits<float>::infinity();
  float greatest = -least;
  for (int64_t i = 0; i < map.rows; ++i) {
    for (int64_t j = 0; j < map.columns; ++j) {
      if (!map.allowed.empty() && !map.allowed[i * map.columns + j]) continue;
      const int64_t cell = i / cells.rows_per_cell * cells.columns + j / cells.columns_per_cell;
      const float value = map.values[i * map.columns + j];
      if (!map.hatched.empty()) cells.hatched[cell] &= map.hatched[i * map.columns + j] != 0;
      CellKind& kind = cells.kinds[cell];
      float& pooled = cells.values[cell];
      if (!std::isfinite(value)) {
        kind = CellKind::non_finite;
        pooled = value;
        cells.any_non_finite = true;
        continue;
      }
      least = std::min(least, value);
      greatest = std::max(greatest, value);
      if (kind == CellKind::non_finite) continue;
      kind = CellKind::value;
      pooled = std::max(pooled, value);
    }
  }
  cells.any_masked =
      std::find(cells.kinds.begin(), cells.kinds.end(), CellKind::masked) != cells.kinds.end();
  for (size_t i = 0; i < cells.hatched.size(); ++i) {
    cells.hatched[i] &= cells.kinds[i] != CellKind::masked;
    cells.any_hatched |= cells.hatched[i] != 0;
  }
  if (map.legend == Legend::allowed) {
    cells.range = {0, 1 / kAllowedPosition};
  } else if (map.range) {
    cells.range = *map.range;
    cells.any_clipped = least < cells.range.low || greatest > cells.range.high;
  } else if (least <= greatest) {
    cells.range = {std::min(0.0, static_cast<double>(least)), static_cast<double>(greatest)};
    // If all values are zero, any width will do; if all are negative, the range ends at zero.
    if (cells.range.high <= 0) cells.range.high = cells.range.low < 0 ? 0 : 1;
  }
  return cells;
}

}  // namespace rapt::viz

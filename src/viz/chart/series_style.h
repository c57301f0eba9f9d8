#pragma once
// How the series of a chart are told apart: by colour, and by marker or dashes.
#include <optional>
#include <vector>

#include "rapt/viz/chart.h"
#include "viz/drawing.h"

namespace rapt::viz {

struct SeriesStyle {
  Color color;
  std::optional<MarkerShape> marker;  // of series with dots
  size_t pattern = 0;                 // of the dashes; 0: one stroke
};

// The styles of all series of a chart. Up to kMaxSeries, no two of the same kind look alike.
std::vector<SeriesStyle> series_styles(const std::vector<Series>& series);

// Lengths of strokes and gaps of a pattern, for round ends.
std::vector<double> dashes_of(size_t pattern);

}  // namespace rapt::viz

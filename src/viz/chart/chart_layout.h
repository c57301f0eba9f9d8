#pragma once
// The layout of line charts, one below the other.
#include <vector>

#include "rapt/viz/chart.h"
#include "viz/drawing.h"
#include "viz/text/stroke_font.h"

namespace rapt::viz {

// Checks the charts and lays them out for a renderer with that font.
Drawing lay_out(const std::vector<LineChart>& charts, Foreign foreign);

}  // namespace rapt::viz

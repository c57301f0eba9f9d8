#pragma once
// The layout of a line chart: title, legend, grid, curves, axes.
#include "rapt/viz/line_chart.h"
#include "viz/drawing.h"
#include "viz/text/stroke_font.h"

namespace rapt::viz {

// Checks the chart and lays it out for a renderer with that font.
Drawing lay_out(const LineChart& chart, Foreign foreign);

}  // namespace rapt::viz

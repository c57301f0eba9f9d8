#pragma once
// The layout of the picture of a heatmap: title, cells, axes, colour bar, legend.
#include "rapt/viz/heatmap.h"
#include "viz/drawing.h"
#include "viz/text/stroke_font.h"

namespace rapt::viz {

// Checks the map, pools it, and lays it out for a renderer with that font.
Drawing lay_out(const Heatmap& map, Foreign foreign);

}  // namespace rapt::viz

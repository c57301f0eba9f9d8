#pragma once
// The outlines of markers. The SVG writer and the rasteriser draw the same figures.
#include <vector>

#include "viz/drawing.h"

namespace rapt::viz {

struct MarkerFigure {
  std::vector<std::vector<Point>> parts;  // around (0, 0), for markers of size 1; y runs downwards
  bool filled;   // a convex polygon; else lines with round ends, one point being a dot
  double width;  // of the lines, for markers of size 1
};

const MarkerFigure& marker_figure(MarkerShape shape);

}  // namespace rapt::viz

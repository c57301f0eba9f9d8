#pragma once
// Draws a picture as pixels.
#include <cstdint>
#include <vector>

#include "viz/drawing.h"

namespace rapt::viz {

struct Raster {
  int64_t width = 0, height = 0;
  std::vector<Color> pixels;  // [height, width]
};

// `scale` pixels per unit of the drawing.
Raster rasterize(const Drawing& drawing, int scale);

}  // namespace rapt::viz

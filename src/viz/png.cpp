// A heatmap as a PNG file.
#include "rapt/viz/heatmap.h"
#include "viz/layout.h"
#include "viz/png_file.h"
#include "viz/raster.h"

namespace rapt::viz {

// Two pixels per unit: sharp on today's screens, and readable in print at half the size.
constexpr int kPixelsPerUnit = 2;

std::vector<unsigned char> to_png(const Heatmap& map) {
  const Raster raster = rasterize(lay_out(map, Foreign::as_box), kPixelsPerUnit);
  return encode_png(raster.pixels, raster.width, raster.height);
}

int64_t boxed_characters(const Heatmap& map) {
  int64_t boxes = 0;
  for (const Shape& shape : lay_out(map, Foreign::as_box).shapes)
    if (const Text* const text = std::get_if<Text>(&shape)) boxes += count_boxes(text->text);
  return boxes;
}

}  // namespace rapt::viz

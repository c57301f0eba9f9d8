// Pictures as PNG files.
#include "rapt/viz/chart.h"
#include "rapt/viz/heatmap.h"
#include "viz/chart/chart_layout.h"
#include "viz/layout.h"
#include "viz/png_file.h"
#include "viz/raster.h"

namespace rapt::viz {
namespace {

// Two pixels per unit: sharp on today's screens, and readable in print at half the size.
constexpr int kPixelsPerUnit = 2;

std::vector<unsigned char> draw_png(const Drawing& drawing) {
  const Raster raster = rasterize(drawing, kPixelsPerUnit);
  return encode_png(raster.pixels, raster.width, raster.height);
}

}  // namespace

std::vector<unsigned char> to_png(const Heatmap& map) {
  return draw_png(lay_out(map, Foreign::as_box));
}

std::vector<unsigned char> to_png(const LineChart& chart) {
  return to_png(std::vector<LineChart>{chart});
}

std::vector<unsigned char> to_png(const std::vector<LineChart>& charts) {
  return draw_png(lay_out(charts, Foreign::as_box));
}

int64_t boxed_characters(const Heatmap& map) {
  int64_t boxes = 0;
  for (const Shape& shape : lay_out(map, Foreign::as_box).shapes)
    if (const Text* const text = std::get_if<Text>(&shape)) boxes += count_boxes(text->text);
  return boxes;
}

}  // namespace rapt::viz

// A user's program with the other two components: writes the tutorial's weights as .npy, reads them
// back and draws them.
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "rapt/io/npy.h"
#include "rapt/viz/heatmap.h"

int main() {
  const float weights[] = {.4787f, .5213f, .4474f, .5526f};  // [2, 2]
  rapt::write_npy("weights.npy", rapt::TensorView(weights, {2, 2}), rapt::Overwrite::yes);
  const rapt::Tensor read = rapt::read_npy("weights.npy");
  const auto values = read.values<float>();

  rapt::viz::Heatmap map;
  map.rows = read.dim(0);
  map.columns = read.dim(1);
  map.values.assign(values.begin(), values.end());
  const std::string svg = rapt::viz::to_svg(map);
  const std::vector<unsigned char> png = rapt::viz::to_png(map);

  int wrong = map.values == std::vector<float>(std::begin(weights), std::end(weights)) ? 0 : 1;
  if (svg.find("0.48") == std::string::npos) ++wrong;  // the first cell, with two decimals
  if (png.size() < 8 || png[1] != 'P' || png[2] != 'N' || png[3] != 'G') ++wrong;
  std::printf("%zu bytes of SVG, %zu bytes of PNG, %d wrong\n", svg.size(), png.size(), wrong);
  return wrong;
}

#include "viz/contrast.h"

#include <algorithm>
#include <cmath>

namespace rapt::viz {
namespace {

// Relative luminance of an sRGB colour (WCAG 2).
double luminance(Color c) {
  const auto linear = [](uint8_t v) {
    const double x = v / 255.0;
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c.red) + 0.7152 * linear(c.green) + 0.0722 * linear(c.blue);
}

double contrast(double a, double b) { return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05); }

}  // namespace

Color text_color(Color background) {
  constexpr Color kWhite{0xff, 0xff, 0xff};
  const double l = luminance(background);
  return contrast(l, luminance(kWhite)) > contrast(l, luminance(kInk)) ? kWhite : kInk;
}

}  // namespace rapt::viz

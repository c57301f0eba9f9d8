#pragma once
// Numbers over numbers as a picture: named curves on two linear axes with round ticks. The axes
// span the values; that of x begins at 0 where this is near.
//
//   LineChart chart{.series = {{.name = "held out", .x = {0, 100, 200}, .y = {4.2, 2.5, 2.1}}},
//                   .x_label = "Updates",
//                   .y_label = "Loss in nats per token"};
//   std::string svg = to_svg(chart);
//
// Nothing here writes files. Names, labels and titles are untrusted UTF-8: control characters are
// dropped, long ones are shortened.
//
// Colours: Okabe & Ito 2008, "Color Universal Design", which colour-blind readers tell apart.
#include <cstddef>
#include <string>
#include <vector>

namespace rapt::viz {

// One curve.
struct Series {
  std::string name = {};       // in the legend; empty: it has no entry
  std::vector<double> x = {};  // places of the points, joined in their order
  std::vector<double> y = {};  // as many; a point that is not finite leaves a gap
  bool dots = false;           // shows each point as a dot, too
};

struct LineChart {                  // what is drawn
  std::vector<Series> series = {};  // later ones are drawn over earlier ones
  std::string title = {};           // above everything
  std::string x_label = {};         // name and unit of the horizontal axis
  std::string y_label = {};         // name and unit of the vertical axis
};

// As many series as there are colours.
inline constexpr size_t kMaxSeries = 6;

// Both throw Error(shape) for a series whose x and y differ in length and for a chart without a
// finite point, Error(unsupported) for more than kMaxSeries series, Error(argument) if the
// differences of the values are beyond double.

// A complete SVG 1.1 document: no script, no external reference, a generic font family.
std::string to_svg(const LineChart& chart);

// The same picture as a PNG file of two pixels per unit of the SVG. Its own font has the Latin,
// Greek and Cyrillic letters; any other character is a box with its code point, and the picture
// says so.
std::vector<unsigned char> to_png(const LineChart& chart);

}  // namespace rapt::viz

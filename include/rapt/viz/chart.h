#pragma once
// Numbers over numbers as a picture: named series on linear or logarithmic axes with round ticks.
// Series are told apart by shape (markers, dashes) as well as by colour. Their names stand beside
// the ends of their curves.
//
//   LineChart chart{.series = {{.name = "held out", .x = {0, 100, 200}, .y = {4.2, 2.5, 2.1}}},
//                   .x_axis = {.label = "Updates"},
//                   .y_axis = {.label = "Loss in nats per token"}};
//   std::string svg = to_svg(chart);
//
// Nothing here writes files. Names, labels and titles are untrusted UTF-8: control characters are
// dropped, long ones are shortened.
//
// Colours: Okabe & Ito 2008, "Color Universal Design", which colour-blind readers tell apart.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rapt/viz/terminal.h"

namespace rapt::viz {

// How an axis maps values to places. A logarithmic one shows values above 0 only.
enum class AxisScale : uint8_t {
  linear,
  log2,   // ticks at powers of two
  log10,  // ticks at powers of ten, and at 2 and 5 times these where there is room
};

// What the numbers of an axis count, for the texts of its ticks.
enum class AxisUnit : uint8_t {
  none,     // "0.5", "131072", "1e-07"
  seconds,  // "20 µs", "5 s"
  bytes,    // "4 KiB", "1 GiB"
};

// One of the two axes.
struct ChartAxis {
  std::string label = {};  // name of what it shows, and the unit if the ticks do not name it
  AxisScale scale = AxisScale::linear;  // how values become places
  AxisUnit unit = AxisUnit::none;       // how its ticks are written
};

// One curve.
struct Series {
  std::string name = {};       // beside its last point; empty: none
  std::vector<double> x = {};  // places of the points, joined in their order
  std::vector<double> y = {};  // as many; a point that an axis cannot show leaves a gap
  bool dots = false;           // shows each point by a marker, too
  bool estimate = false;       // a formula, nothing measured: grey and dashed
};

// A horizontal line across the chart: a baseline or a limit.
struct LineAcross {
  std::string name = {};  // beside its right end; empty: none
  double y = 0;           // its value on the vertical axis
};

struct LineChart {                     // what is drawn
  std::vector<Series> series = {};     // later ones are drawn over earlier ones
  std::vector<LineAcross> lines = {};  // drawn below the series
  std::string title = {};              // above everything
  ChartAxis x_axis = {};               // the horizontal axis
  ChartAxis y_axis = {};               // the vertical axis
  std::string note = {};               // small print below the chart
};

// The greatest number of series, and of lines across: as many as there are pairs of a colour and a
// marker.
inline constexpr size_t kMaxSeries = 42;

// All of them throw Error(shape) for a series whose x and y differ in length, for a chart without a
// point that its axes can show, and without charts; Error(unsupported) for more than kMaxSeries
// series or lines; Error(argument) if the differences of the values of a linear axis are beyond
// double.

// A complete SVG 1.1 document: no script, no external reference, a generic font family.
std::string to_svg(const LineChart& chart);

// The same for several charts, one below the other, with their plots below each other.
std::string to_svg(const std::vector<LineChart>& charts);

// The same picture as a PNG file of two pixels per unit of the SVG. Its own font has the Latin,
// Greek and Cyrillic letters; any other character is a box with its code point, and the picture
// says so.
std::vector<unsigned char> to_png(const LineChart& chart);

// The same for several charts, one below the other.
std::vector<unsigned char> to_png(const std::vector<LineChart>& charts);

// Lines of text that end in a newline and fit style.width. Throws Error(argument) for a width below
// kMinTerminalWidth, too.
std::string to_terminal(const LineChart& chart, const TerminalStyle& style);

}  // namespace rapt::viz

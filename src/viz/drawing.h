#pragma once
// A picture as a list of shapes, in the order of painting. The layout creates it; the SVG writer
// and the rasteriser draw it. Units are pixels of the SVG, y runs downwards.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rapt/viz/color_map.h"

namespace rapt::viz {

struct Box {
  double x, y, width, height;
};

struct Fill {
  Box box;
  Color color;
};

struct Frame {  // a line one unit wide, centred on the border of the box
  Box box;
  Color color;
};

struct Line {
  double x1, y1, x2, y2;  // horizontal or vertical
  Color color;
};

struct Point {
  double x, y;
};

struct Curve {  // straight lines from point to point with round ends; one point is a dot
  std::vector<Point> points;
  double width;
  Color color;
  std::vector<double> dashes = {};  // lengths of strokes and gaps in turn; empty: one stroke
};

enum class MarkerShape : uint8_t {
  circle,
  square,
  triangle,
  diamond,
  inverted_triangle,
  plus,
  cross,
};

struct Markers {  // the same figure at several places
  std::vector<Point> centers;
  MarkerShape shape;
  double size;  // width of the figure
  Color color;
};

struct Hatch {  // the hatching of masked cells
  Box box;
};

struct HatchedCells {  // lines over the colours of some cells
  Box box;
  int64_t rows, columns;
  std::vector<uint8_t> cells;  // [rows, columns], 1 = lines
};

struct ColorBar {  // low values at the bottom
  Box box;
  ColorMap colors;
};

struct Image {
  Box box;
  int64_t rows, columns;
  std::vector<uint8_t> pixels;  // [rows, columns], indices into the palette
  std::vector<Color> palette;   // at most 255 colours; the index behind them is transparent
};

enum class Anchor : uint8_t { start, middle, end };
enum class Turn : uint8_t { none, upwards };  // upwards: read from bottom to top
enum class Weight : uint8_t { normal, bold };

struct Text {
  double x, y;  // the anchor on the line through the middle of the capital letters
  double size;  // of the font
  Anchor anchor;
  Turn turn;
  Weight weight;
  Color color;
  std::u32string text;
};

using Shape =
    std::variant<Fill, Frame, Line, Curve, Markers, Hatch, HatchedCells, ColorBar, Image, Text>;

struct Drawing {
  double width = 0, height = 0;  // whole numbers
  std::u32string title;
  std::vector<Shape> shapes;
};

// Height of a capital letter, and the line distance that keeps descenders apart, per font size.
inline constexpr double kCapHeight = 0.7;
inline constexpr double kLineHeight = 1.25;

// Masked areas: white, with diagonal lines this far apart (measured along x) and this wide.
inline constexpr Color kWhite{0xff, 0xff, 0xff};
inline constexpr Color kHatchColor{0xad, 0xb5, 0xbd};
inline constexpr double kHatchPeriod = 6;
inline constexpr double kHatchWidth = 1.5;
// Lines over cells: a colour that shows on light and on dark cells, and is not that of a mask.
inline constexpr Color kCellHatchColor{0xe8, 0x59, 0x0c};
inline constexpr double kCellHatchWidth = 1;

}  // namespace rapt::viz

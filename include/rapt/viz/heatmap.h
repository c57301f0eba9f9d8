#pragma once
// A matrix of attention weights as a picture: what to draw, and the three ways to draw it.
//
// Rows are queries, columns are keys. Nothing here writes files. Labels and titles are untrusted
// UTF-8: control characters are dropped, long ones are shortened.
//
//   Heatmap map{.rows = 2, .columns = 2, .values = {.48f, .52f, .45f, .55f}};
//   std::string svg = to_svg(map);
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rapt/viz/color_map.h"
#include "rapt/viz/terminal.h"

namespace rapt::viz {

struct ValueRange {  // the values at the two ends of a colour map
  double low, high;  // finite, low < high
};

enum class Annotate : uint8_t {
  automatic,  // numbers in the cells while they can be read
  always,     // cells grow until the numbers fit; an error where cells are too many for that
  never,
};

// What explains the colours.
enum class Legend : uint8_t {
  bar,      // a bar with numbers
  allowed,  // "allowed" and "masked": for maps that say no more than that; `range` is not used
};

struct Heatmap {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values = {};     // [rows, columns]; NaN and infinities get a cell of their own
  std::vector<uint8_t> allowed = {};  // [rows, columns], 0 = masked; empty: nothing is masked
  // [rows, columns], 1 = lines over the colour of a cell that is not masked; empty: none.
  std::vector<uint8_t> hatched = {};
  std::string hatched_label = "hatched";  // what these lines mean, for the legend

  std::vector<std::string> row_labels = {};     // [rows]; empty: the row numbers, from 0
  std::vector<std::string> column_labels = {};  // [columns]; empty: the column numbers, from 0
  // What a cell of a map that was pooled before stands for: axes without labels count positions.
  double positions_per_row = 1;
  double positions_per_column = 1;  // the same, of columns
  std::string title = {};
  std::string x_label = "Keys";
  std::string y_label = "Queries";

  ColorMap colors = color_map("blues");
  // Values at the ends of the colour map; those beyond take the end colours. By default 0 to the
  // greatest value, or from the least value where that is negative.
  std::optional<ValueRange> range = {};
  int decimals = 2;  // of the numbers in the cells, 0 to 9
  Annotate annotate = Annotate::automatic;
  Legend legend = Legend::bar;  // what explains the colours
};

// A number of cells per side up to which each cell is a rectangle with room for text. Above it
// to_svg embeds one image under vector axes, and Annotate::always is refused.
inline constexpr int64_t kMaxVectorCells = 64;

// A number of cells per side above which pictures show the maximum of blocks of cells, and say so.
inline constexpr int64_t kMaxImageCells = 1024;

// All of them throw Error(shape) when sizes do not fit together or there is no cell,
// Error(argument) for a bad range or number of decimals, Error(unsupported) for Annotate::always on
// too many cells.

// A complete SVG 1.1 document: no script, no external reference, a generic font family. Several may
// stand in one HTML page: identifiers differ from picture to picture.
std::string to_svg(const Heatmap& map);

// The same picture as a PNG file of two pixels per unit of the SVG. Its own font has Latin letters
// with their accents; any other character is a box with its code point, and the picture says so.
std::vector<unsigned char> to_png(const Heatmap& map);

// How many characters to_png draws as such a box, for a message that an SVG would show them.
int64_t boxed_characters(const Heatmap& map);

// Lines of text that end in a newline and fit style.width, larger maps pooled by their maximum.
std::string to_terminal(const Heatmap& map, const TerminalStyle& style);

}  // namespace rapt::viz

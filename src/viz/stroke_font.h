#pragma once
// A font of pen strokes, made for this library: printable ASCII and a little punctuation. Each
// glyph is a set of line segments for a round pen, so it is drawn at any size and in any direction.
#include <string_view>
#include <vector>

namespace rapt::viz {

struct Segment {
  double x1, y1, x2, y2;  // y upwards from the baseline; font size 1
};

struct Glyph {
  double advance;  // font size 1
  std::vector<Segment> segments;
  bool is_code = false;  // a box with a code point: fine print, for a fine pen
};

// The character's glyph; a box with the hexadecimal code point for characters the font lacks.
Glyph glyph(char32_t character);

// Who draws the characters that the font lacks: the viewer of the picture, with a font of its own,
// or this font as a box.
enum class Foreign { by_viewer, as_box };

// Width of a text at font size 1. It is also a fair upper bound for common sans-serif fonts.
double text_width(std::u32string_view text, Foreign foreign);

}  // namespace rapt::viz

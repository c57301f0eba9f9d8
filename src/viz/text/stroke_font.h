#pragma once
// A font of pen strokes, made for this library: letters of the Latin, Greek and
// Cyrillic alphabets with their accents, digits and punctuation. Each glyph is a set of line
// segments for a round pen, so it is drawn at any size and in any direction.
#include <cstdint>
#include <string_view>
#include <vector>

#include "viz/text/pen.h"

namespace rapt::viz {

struct Glyph {  // font size 1
  double advance;
  std::vector<Segment> segments;
  bool is_code = false;  // a box with a code point: small digits, drawn with a fine pen
};

// One glyph per letter with its accents. Characters that the font lacks become a box with the
// hexadecimal code point.
std::vector<Glyph> glyphs_of(std::u32string_view text);

// The number of such boxes in a text.
int64_t count_boxes(std::u32string_view text);

// What draws the characters that the font lacks: the viewer of the picture with its own fonts, or
// this font as a box.
enum class Foreign { by_viewer, as_box };

// Width of a text at font size 1. It is also a fair upper bound for common sans-serif fonts.
double text_width(std::u32string_view text, Foreign foreign);

}  // namespace rapt::viz

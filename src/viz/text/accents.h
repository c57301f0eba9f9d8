#pragma once
// Letters with accents for the stroke font: their parts, and how accents are drawn.
#include <array>

#include "viz/text/stroke_font.h"

namespace rapt::viz {

struct Accents {
  char32_t letter = 0;                       // 0: not made of others
  std::array<char32_t, 2> accents = {0, 0};  // combining marks, 0: none
};

// The parts of a letter of one code point: U+00E9 is e and U+0301. A letter that looks like one of
// another alphabet consists of that letter alone.
Accents without_accents(char32_t character);

// Whether add_accent can draw the combining mark.
bool is_accent(char32_t mark);

// Draws the mark over, under or through the letter.
void add_accent(Glyph& letter, char32_t mark);

}  // namespace rapt::viz

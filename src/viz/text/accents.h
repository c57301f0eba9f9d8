#pragma once
// Letters with accents for the stroke font: what they are made of, and how accents are drawn.
#include <array>

#include "viz/text/stroke_font.h"

namespace rapt::viz {

struct Accents {
  char32_t letter = 0;                       // 0: not made of others
  std::array<char32_t, 2> accents = {0, 0};  // combining marks, 0: none
};

// What a letter of one code point is made of: U+00E9 of e and U+0301. Letters that look like one of
// another alphabet are made of that one alone.
Accents without_accents(char32_t character);

// Whether add_accent knows the combining mark.
bool is_accent(char32_t mark);

// Draws the mark over, under or through the letter.
void add_accent(Glyph& letter, char32_t mark);

}  // namespace rapt::viz

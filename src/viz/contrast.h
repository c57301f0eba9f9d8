#pragma once
// The colour of text that is readable on any background.
#include "rapt/viz/color_map.h"

namespace rapt::viz {

inline constexpr Color kInk{0x21, 0x25, 0x29};

// White or ink, whichever has the greater contrast with the background (WCAG 2).
Color text_color(Color background);

}  // namespace rapt::viz

#pragma once
// Paths of the stroke font as line segments.
#include <string>
#include <vector>

namespace rapt::viz {

struct Segment {
  double x1, y1, x2, y2;  // y upwards from the baseline
};

// The path language, in tenths of the font size:
//   M x y: lift the pen to here     L x y: line     Q cx cy x y: curve (quadratic)
//   O cx cy rx ry: ellipse          A cx cy rx ry a b: arc between two angles in degrees,
//                                   with a line to its beginning when the pen is down
std::vector<Segment> draw_path(const char* path);

}  // namespace rapt::viz

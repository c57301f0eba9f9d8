#pragma once
// Texts measured, shortened and broken into lines, for a renderer with a given font.
#include <string>
#include <string_view>
#include <vector>

#include "viz/text/stroke_font.h"

namespace rapt::viz {

class Ruler {
 public:
  explicit Ruler(Foreign foreign) : foreign_(foreign) {}

  double width(std::u32string_view text, double font) const;

  // The text, or its longest beginning that measures at most `limit` with an ellipsis.
  std::u32string cut(std::u32string_view text, double limit, double font) const;

  // Breaks a text into lines at blanks; the last allowed line is shortened.
  std::vector<std::u32string> wrap(std::u32string_view text, double limit, double font,
                                   int max_lines) const;

 private:
  Foreign foreign_;
};

}  // namespace rapt::viz

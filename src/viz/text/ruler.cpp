#include "viz/text/ruler.h"

#include <algorithm>

#include "viz/text/label_text.h"

namespace rapt::viz {

double Ruler::width(std::u32string_view text, double font) const {
  return text_width(text, foreign_) * font;
}

std::u32string Ruler::cut(std::u32string_view text, double limit, double font) const {
  return shorten(text, limit, U'\u2026',
                 [&](std::u32string_view part) { return width(part, font); });
}

std::vector<std::u32string> Ruler::wrap(std::u32string_view text, double limit, double font,
                                        int max_lines) const {
  std::vector<std::u32string> lines;
  std::u32string_view rest = text;
  while (!rest.empty() && std::ssize(lines) < max_lines) {
    size_t end = rest.size();
    if (std::ssize(lines) + 1 < max_lines && width(rest, font) > limit) {
      const std::u32string fits = cut(rest, limit, font);
      const size_t space = rest.rfind(U' ', fits.size());
      end = space != std::u32string_view::npos && space > 0 ? space
                                                            : std::max<size_t>(fits.size(), 2) - 1;
    }
    lines.push_back(cut(rest.substr(0, end), limit, font));
    rest.remove_prefix(end);
    rest.remove_prefix(std::min(rest.find_first_not_of(U' '), rest.size()));
  }
  return lines;
}

}  // namespace rapt::viz

#include "viz/text/accents.h"

#include <algorithm>
#include <iterator>

namespace rapt::viz {
namespace {

struct Decomposition {
  char32_t character, letter, first, second;
};
#include "viz/text/decompositions.inc"

enum class Place { above, below, touching_top, touching_bottom };

struct Mark {
  char32_t character;
  Place place;
  const char* path;  // x from the middle of the letter, y from its top or bottom
};

constexpr Mark kMarks[] = {
    {0x300, Place::above, "M-1 1.5L0.6 0.1"},
    {0x301, Place::above, "M-0.6 0.1L1 1.5"},
    {0x302, Place::above, "M-1.3 0.1L0 1.5L1.3 0.1"},
    {0x303, Place::above, "M-1.6 0.2Q-0.8 1.6 0 0.7Q0.8 -0.2 1.6 1.2"},
    {0x304, Place::above, "M-1.4 0.7L1.4 0.7"},
    {0x306, Place::above, "M-1.3 1.4Q0 -0.9 1.3 1.4"},
    {0x307, Place::above, "M0 0.6L0 0.6"},
    {0x308, Place::above, "M-1 0.6L-1 0.6M1 0.6L1 0.6"},
    {0x309, Place::above, "M-0.6 1.2Q0.2 2 0.7 1.2Q0.8 0.7 0 0.5L0 0"},
    {0x30a, Place::above, "O0 0.8 0.8 0.8"},
    {0x30b, Place::above, "M-1.2 0.1L-0.2 1.5M0.5 0.1L1.5 1.5"},
    {0x30c, Place::above, "M-1.3 1.5L0 0.1L1.3 1.5"},
    {0x31b, Place::touching_top, "M1.5 -0.5Q2.9 -0.4 2.7 0.9"},
    {0x323, Place::below, "M0 -0.5L0 -0.5"},
    {0x326, Place::below, "M0.2 -0.2L-0.3 -1.3"},
    {0x327, Place::touching_bottom, "M0 0L-0.2 -0.7Q0.9 -0.6 0.8 -1.2Q0.5 -1.9 -0.7 -1.6"},
    {0x328, Place::touching_bottom, "M1 0Q-0.3 -1 0.4 -1.6Q0.8 -1.9 1.4 -1.6"},
    {0x331, Place::below, "M-1.4 -0.6L1.4 -0.6"},
};

constexpr double kMarkUnit = 0.1;
constexpr double kGap = 1;  // between letter and mark, in tenths, for strokes as wide as half of it

const Mark* find_mark(char32_t character) {
  const auto* mark = std::lower_bound(std::begin(kMarks), std::end(kMarks), character,
                                      [](const Mark& m, char32_t c) { return m.character < c; });
  return mark != std::end(kMarks) && mark->character == character ? mark : nullptr;
}

}  // namespace

Accents without_accents(char32_t character) {
  const auto* found =
      std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), character,
                       [](const Decomposition& d, char32_t c) { return d.character < c; });
  if (found == std::end(kDecompositions) || found->character != character) return {};
  return {found->letter, {found->first, found->second}};
}

bool is_accent(char32_t mark) { return find_mark(mark) != nullptr; }

void add_accent(Glyph& letter, char32_t character) {
  const Mark& mark = *find_mark(character);
  // The dot of i and j is removed if there is an accent.
  constexpr double kDot = 0.6;
  if (mark.place == Place::above)
    std::erase_if(letter.segments, [](const Segment& s) {
      return s.x1 == s.x2 && s.y1 == s.y2 && s.y1 > kDot && s.y1 < 0.75;
    });
  // Narrow letters are widened, so that marks side by side stay apart.
  constexpr double kNarrowest = 0.34;
  const double missing = std::max(0.0, kNarrowest - letter.advance);
  letter.advance += missing;
  double top = 0, bottom = 0;
  for (Segment& s : letter.segments) {
    s.x1 += missing / 2;
    s.x2 += missing / 2;
    top = std::max({top, s.y1, s.y2});
    bottom = std::min({bottom, s.y1, s.y2});
  }
  const double y = mark.place == Place::above          ? top + kGap * kMarkUnit
                   : mark.place == Place::below        ? bottom - kGap * kMarkUnit
                   : mark.place == Place::touching_top ? top
                                                       : bottom;
  const double x = letter.advance / 2;
  for (const Segment& s : draw_path(mark.path))
    letter.segments.push_back(
        {x + s.x1 * kMarkUnit, y + s.y1 * kMarkUnit, x + s.x2 * kMarkUnit, y + s.y2 * kMarkUnit});
}

}  // namespace rapt::viz

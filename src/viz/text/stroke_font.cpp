#include "viz/text/stroke_font.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <numbers>
#include <string>

#include "viz/text/accents.h"
#include "viz/text/label_text.h"
#include "viz/text/pen.h"

namespace rapt::viz {
namespace {

// The strokes of a glyph, in tenths of the font size (viz/text/pen.h). Capitals are 7 high, small
// letters 5.
struct Strokes {
  char32_t character;
  double width;  // without the space on both sides
  const char* path;
};

constexpr double kUnit = 0.1;
constexpr double kBearing = 0.9;  // space on either side of a glyph

constexpr Strokes kStrokes[] = {
#include "viz/text/european_strokes.inc"
    {U' ', 1.4, ""},
    {U'!', 0, "M0 7L0 2.2M0 0L0 0"},
    {U'"', 1.7, "M0 7L0 4.8M1.7 7L1.7 4.8"},
    {U'#', 5, "M1.6 7L0.6 0M4.4 7L3.4 0M0 2.3L4.7 2.3M0.3 4.7L5 4.7"},
    {U'$', 4.2, "A2.1 5 1.9 1.5 30 270A2.1 2 2.1 1.5 90 -150M2.1 7.6L2.1 -0.6"},
    {U'%', 6.6, "M5.4 7L1.2 0M O1.4 5.5 1.4 1.5O5.2 1.5 1.4 1.5"},
    {U'&', 5.2,
     "M5.2 0L1.2 4.6Q0.5 5.4 0.7 6.1Q1 7 2.1 7Q3.3 7 3.3 5.8Q3.3 4.9 1.9 4Q0 3 0 1.8Q0 0 2 0"
     "Q4.4 0 4.8 3.2"},
    {U'\'', 0, "M0 7L0 4.8"},
    {U'(', 1.4, "M1.4 7.6Q0 5.6 0 3Q0 0.4 1.4 -1.6"},
    {U')', 1.4, "M0 7.6Q1.4 5.6 1.4 3Q1.4 0.4 0 -1.6"},
    {U'*', 3.4, "M1.7 7L1.7 3.4M0.1 6.1L3.3 4.3M3.3 6.1L0.1 4.3"},
    {U'+', 4.6, "M2.3 5.6L2.3 1M0 3.3L4.6 3.3"},
    {U',', 0.6, "M0.5 0.2L0 -1.4"},
    {U'-', 2.2, "M0 2.8L2.2 2.8"},
    {U'.', 0, "M0 0L0 0"},
    {U'/', 2.8, "M2.8 7.4L0 -0.8"},
    {U'0', 4.4, "O2.2 3.5 2.1 3.5"},
    {U'1', 4.4, "M0.7 5.7L2.4 7L2.4 0M0.8 0L4 0"},
    {U'2', 4.4, "A2.2 5.1 1.95 1.9 165 -36L0.2 0L4.2 0"},
    {U'3', 4.4, "A2.1 5.3 1.8 1.7 150 -90A2.1 1.8 2.1 1.8 90 -150"},
    {U'4', 4.4, "M3.3 0L3.3 7L0 2L4.4 2"},
    {U'5', 4.4, "M3.9 7L0.8 7L0.5 3.8A2.1 2.25 2.15 2.25 130 -150"},
    {U'6', 4.4, "M3.9 6.4Q3.3 7 2.5 7Q0.1 7 0.1 2.4O2.2 2.2 2.1 2.2"},
    {U'7', 4.4, "M0.2 7L4.3 7L1.5 0"},
    {U'8', 4.4, "O2.2 5.3 1.8 1.7O2.2 1.8 2.1 1.8"},
    {U'9', 4.4, "M0.5 0.6Q1.1 0 1.9 0Q4.3 0 4.3 4.6O2.2 4.8 2.1 2.2"},
    {U':', 0, "M0 4.6L0 4.6M0 0L0 0"},
    {U';', 0.6, "M0.5 4.6L0.5 4.6M0.5 0.2L0 -1.4"},
    {U'<', 4.4, "M4.4 5.6L0 3.3L4.4 1"},
    {U'=', 4.6, "M0 4.4L4.6 4.4M0 2.2L4.6 2.2"},
    {U'>', 4.4, "M0 5.6L4.4 3.3L0 1"},
    {U'?', 3.6, "A1.8 5.3 1.8 1.7 160 -45Q1.8 3.4 1.8 2.2M1.8 0L1.8 0"},
    {U'@', 7,
     "M5.2 4.6L4.8 2.4Q4.6 1.1 5.5 1.1Q7 1.3 7 3.4A3.6 3 3.5 3.8 5 305M4.95 3.1A3.5 2.9 1.5 1.8 20 "
     "340"},
    {U'A', 5, "M0 0L2.5 7L5 0M0.9 2.4L4.1 2.4"},
    {U'B', 4.3,
     "M0 0L0 7L2.4 7A2.4 5.35 1.7 1.65 90 -90L0 3.7M2.4 3.7A2.4 1.85 1.9 1.85 90 -90L0 0"},
    {U'C', 5, "A2.7 3.5 2.7 3.5 50 310"},
    {U'D', 4.9, "M0 0L0 7L1.8 7A1.8 3.5 3.1 3.5 90 -90L0 0"},
    {U'E', 4, "M4 7L0 7L0 0L4 0M0 3.7L3.5 3.7"},
    {U'F', 3.8, "M3.8 7L0 7L0 0M0 3.7L3.3 3.7"},
    {U'G', 5.1, "A2.7 3.5 2.7 3.5 50 325L4.9 3.2L3 3.2"},
    {U'H', 4.8, "M0 0L0 7M4.8 0L4.8 7M0 3.7L4.8 3.7"},
    {U'I', 0, "M0 0L0 7"},
    {U'J', 2.6, "M2.6 7L2.6 1.6A1.3 1.6 1.3 1.6 0 -160"},
    {U'K', 4.6, "M0 0L0 7M4.4 7L0 2.6M1.6 4.2L4.6 0"},
    {U'L', 3.8, "M0 7L0 0L3.8 0"},
    {U'M', 5.8, "M0 0L0 7L2.9 1.8L5.8 7L5.8 0"},
    {U'N', 4.8, "M0 0L0 7L4.8 0L4.8 7"},
    {U'O', 5.6, "O2.8 3.5 2.8 3.5"},
    {U'P', 4.2, "M0 0L0 7L2.3 7A2.3 5.1 1.9 1.9 90 -90L0 3.2"},
    {U'Q', 5.6, "O2.8 3.5 2.8 3.5M3.4 1.7L5.6 -0.8"},
    {U'R', 4.5, "M0 0L0 7L2.3 7A2.3 5.1 1.9 1.9 90 -90L0 3.2M2.3 3.2L4.5 0"},
    {U'S', 4.2, "A2.1 5.3 2 1.7 30 270A2.1 1.8 2.1 1.8 90 -150"},
    {U'T', 5, "M0 7L5 7M2.5 7L2.5 0"},
    {U'U', 4.8, "M0 7L0 2.4A2.4 2.4 2.4 2.4 180 360L4.8 7"},
    {U'V', 5, "M0 7L2.5 0L5 7"},
    {U'W', 7.2, "M0 7L1.8 0L3.6 6.6L5.4 0L7.2 7"},
    {U'X', 4.8, "M0 0L4.8 7M0 7L4.8 0"},
    {U'Y', 4.8, "M0 7L2.4 3.4L4.8 7M2.4 3.4L2.4 0"},
    {U'Z', 4.6, "M0 7L4.6 7L0 0L4.6 0"},
    {U'[', 1.4, "M1.4 7.6L0 7.6L0 -1.4L1.4 -1.4"},
    {U'\\', 2.8, "M0 7.4L2.8 -0.8"},
    {U']', 1.4, "M0 7.6L1.4 7.6L1.4 -1.4L0 -1.4"},
    {U'^', 3.6, "M0 4.4L1.8 7L3.6 4.4"},
    {U'_', 4.6, "M0 -1.2L4.6 -1.2"},
    {U'`', 1.2, "M0 7.4L1.2 6"},
    {U'a', 3.7,
     "M0.3 4.2A1.95 3.3 1.75 1.7 150 0L3.7 0M3.7 2.9L1.6 2.9A1.6 1.45 1.6 1.45 90 270Q3.7 0 "
     "3.7 2"},
    {U'b', 4, "M0 0L0 7.4M O2 2.5 2 2.5"},
    {U'c', 3.6, "A2.1 2.5 2.1 2.5 48 312"},
    {U'd', 4, "M4 0L4 7.4O2 2.5 2 2.5"},
    {U'e', 4.1, "M0.1 2.6L4.1 2.6A2.05 2.5 2.05 2.5 2 315"},
    {U'f', 2.5, "M0.8 0L0.8 5.7A2.2 5.7 1.4 1.7 180 80M0 4.9L2.2 4.9"},
    {U'g', 4, "O2 2.5 2 2.5M4 5L4 -0.2A2.1 -0.2 1.9 1.8 0 -150"},
    {U'h', 3.8, "M0 0L0 7.4M0 3.1A1.9 3.1 1.9 1.9 180 0L3.8 0"},
    {U'i', 0, "M0 0L0 5M0 6.9L0 6.9"},
    {U'j', 1, "M1 5L1 -0.6A-0.3 -0.6 1.3 1.4 0 -80M1 6.9L1 6.9"},
    {U'k', 3.7, "M0 0L0 7.4M3.5 5L0 1.8M1.3 3L3.7 0"},
    {U'l', 0.8, "M0 7.4L0 1Q0 0 0.8 0"},
    {U'm', 6.4, "M0 0L0 5M0 3.4A1.6 3.4 1.6 1.6 180 0L3.2 0M3.2 3.4A4.8 3.4 1.6 1.6 180 0L6.4 0"},
    {U'n', 3.8, "M0 0L0 5M0 3.1A1.9 3.1 1.9 1.9 180 0L3.8 0"},
    {U'o', 4.2, "O2.1 2.5 2.1 2.5"},
    {U'p', 4, "M0 5L0 -2O2 2.5 2 2.5"},
    {U'q', 4, "M4 5L4 -2O2 2.5 2 2.5"},
    {U'r', 2.3, "M0 0L0 5M0 3.1A1.9 3.1 1.9 1.9 180 78"},
    {U's', 3.4, "A1.7 3.75 1.6 1.25 30 270A1.7 1.25 1.7 1.25 90 -150"},
    {U't', 2.4, "M0.8 6.6L0.8 1.3A2.1 1.3 1.3 1.3 180 275M0 5L2.2 5"},
    {U'u', 3.8, "M0 5L0 1.9A1.9 1.9 1.9 1.9 180 360M3.8 5L3.8 0"},
    {U'v', 4, "M0 5L2 0L4 5"},
    {U'w', 5.8, "M0 5L1.45 0L2.9 4.7L4.35 0L5.8 5"},
    {U'x', 3.8, "M0 0L3.8 5M0 5L3.8 0"},
    {U'y', 4.1, "M0 5L2.1 0M4.1 5L1.8 -0.9Q1.4 -2 0.3 -2"},
    {U'z', 3.6, "M0 5L3.6 5L0 0L3.6 0"},
    {U'{', 2,
     "M2 7.6Q0.9 7.6 0.9 6.4L0.9 4.4Q0.9 3.1 0 3.1Q0.9 3.1 0.9 1.8L0.9 -0.2Q0.9 -1.4 2 -1.4"},
    {U'|', 0, "M0 7.6L0 -1.6"},
    {U'}', 2,
     "M0 7.6Q1.1 7.6 1.1 6.4L1.1 4.4Q1.1 3.1 2 3.1Q1.1 3.1 1.1 1.8L1.1 -0.2Q1.1 -1.4 0 -1.4"},
    {U'~', 4.6, "M0 2.8Q1.1 4.4 2.3 3.3Q3.5 2.2 4.6 3.8"},
    {U'\u00b7', 0, "M0 3L0 3"},
    {U'\u00d7', 3.6, "M0 1.5L3.6 5.1M0 5.1L3.6 1.5"},
    {U'\u0120', 5.1,
     "A2.7 3.5 2.7 3.5 50 325L4.9 3.2L3 3.2M2.7 8.6L2.7 8.6"},  // blank in byte-level BPE
    {U'\u2013', 4, "M0 2.8L4 2.8"},
    {U'\u2014', 7.6, "M0 2.8L7.6 2.8"},
    {U'\u2018', 0.6, "M0.5 7L0 5.4"},
    {U'\u2019', 0.6, "M0.5 7L0 5.4"},
    {U'\u201c', 2, "M0.5 7L0 5.4M2 7L1.5 5.4"},
    {U'\u201d', 2, "M0.5 7L0 5.4M2 7L1.5 5.4"},
    {U'\u2026', 5, "M0 0L0 0M2.5 0L2.5 0M5 0L5 0"},
    {U'\u21b5', 5, "M5 6L5 2L0 2M1.9 3.8L0 2L1.9 0.2"},  // line end
    {U'\u2212', 4.6, "M0 3.3L4.6 3.3"},
    {U'\u2423', 4.4, "M0 1L0 -1L4.4 -1L4.4 1"},             // blank
    {U'\u2581', 4.6, "M0 -0.8L4.6 -0.8L4.6 0L0 0L0 -0.8"},  // blank in SentencePiece
};

const std::map<char32_t, Glyph>& glyphs() {
  static const std::map<char32_t, Glyph> all = [] {
    std::map<char32_t, Glyph> made;
    for (const Strokes& s : kStrokes) {
      Glyph g{(s.width + 2 * kBearing) * kUnit, draw_path(s.path)};
      for (Segment& line : g.segments)
        line = {(line.x1 + kBearing) * kUnit, line.y1 * kUnit, (line.x2 + kBearing) * kUnit,
                line.y2 * kUnit};
      made.emplace(s.character, std::move(g));
    }
    return made;
  }();
  return all;
}

// Two rows of hexadecimal digits in a frame; the layout of the boxes is in tenths of the font size.
constexpr double kDigitAdvance = 4.2;
constexpr double kDigitScale = 0.6;  // of a full-size digit
constexpr double kBoxBottom = -2.6, kBoxTop = 9.6;
constexpr double kRowBaselines[] = {4.3, -1.4};

Glyph code_box(char32_t character) {
  char digits[8];
  const char* end = std::to_chars(digits, digits + 8, static_cast<uint32_t>(character), 16).ptr;
  std::string code(std::string_view(digits, static_cast<size_t>(end - digits)));
  while (code.size() < 4 || code.size() % 2) code.insert(code.begin(), '0');
  for (char& c : code)
    if (c >= 'a') c = static_cast<char>(c - 'a' + 'A');
  const size_t per_row = code.size() / 2;
  const double left = 0.6, right = left + kDigitAdvance * static_cast<double>(per_row) + 0.9;
  Glyph box{(right + 0.6) * kUnit, {}, true};
  const auto add = [&box](double x1, double y1, double x2, double y2) {
    box.segments.push_back({x1 * kUnit, y1 * kUnit, x2 * kUnit, y2 * kUnit});
  };
  add(left, kBoxBottom, right, kBoxBottom);
  add(left, kBoxTop, right, kBoxTop);
  add(left, kBoxBottom, left, kBoxTop);
  add(right, kBoxBottom, right, kBoxTop);
  for (size_t i = 0; i < code.size(); ++i) {
    const Glyph& digit = glyphs().at(static_cast<char32_t>(code[i]));
    const double x = left + 0.65 + kDigitAdvance * static_cast<double>(i % per_row);
    const double y = kRowBaselines[i / per_row];
    for (const Segment& s : digit.segments)
      add(x + s.x1 * kDigitScale / kUnit, y + s.y1 * kDigitScale / kUnit,
          x + s.x2 * kDigitScale / kUnit, y + s.y2 * kDigitScale / kUnit);
  }
  return box;
}

// Advances of foreign characters by display width 0, 1 and 2, in common fonts.
constexpr double kViewerAdvance[] = {0, 0.62, 1};

}  // namespace

std::vector<Glyph> glyphs_of(std::u32string_view text) {
  std::vector<Glyph> drawn;
  for (const char32_t character : text) {
    const Accents parts = without_accents(character);
    const bool mark = is_accent(character);
    const bool on_letter = mark && !drawn.empty() && !drawn.back().is_code;
    if (on_letter) {
      add_accent(drawn.back(), character);
      continue;
    }
    const auto found = glyphs().find(character);
    const auto base = found != glyphs().end() ? found : glyphs().find(parts.letter);
    drawn.push_back(base != glyphs().end() ? base->second : code_box(character));
    if (found != glyphs().end()) continue;
    for (const char32_t accent : parts.accents)
      if (accent) add_accent(drawn.back(), accent);
  }
  return drawn;
}

int64_t count_boxes(std::u32string_view text) {
  const std::vector<Glyph> drawn = glyphs_of(text);
  return std::count_if(drawn.begin(), drawn.end(), [](const Glyph& g) { return g.is_code; });
}

double text_width(std::u32string_view text, Foreign foreign) {
  double width = 0;
  if (foreign == Foreign::as_box) {
    for (const Glyph& g : glyphs_of(text)) width += g.advance;
    return width;
  }
  for (const char32_t c : text) {
    const auto found = glyphs().find(c);
    width += found != glyphs().end() ? found->second.advance : kViewerAdvance[display_width(c)];
  }
  return width;
}

}  // namespace rapt::viz

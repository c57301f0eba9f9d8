#include "viz/terminal/terminal_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "viz/text/label_text.h"

namespace rapt::viz {
namespace {

// A colour in OKLab (Ottosson 2020), where distances approximate perceived differences.
struct Lab {
  double lightness = 0, a = 0, b = 0;
};

Lab lab(Color c) {
  const auto linear = [](uint8_t v) {
    const double x = v / 255.0;
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  const double red = linear(c.red), green = linear(c.green), blue = linear(c.blue);
  const double l = std::cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const double m = std::cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const double s = std::cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

// Hue counts four times as much as lightness, so that a dark blue stays blue in a palette with few
// dark colours.
double distance(const Lab& x, const Lab& y) {
  const double lightness = x.lightness - y.lightness, a = x.a - y.a, b = x.b - y.b;
  return lightness * lightness + 4 * (a * a + b * b);
}

constexpr int kFirstOfCube = 16, kFirstGrey = 232, kPaletteEnd = 256;

// The colours from index 16 on: the 6x6x6 cube, and 24 greys: 8, 18, ... 238. The terminal defines
// the first 16 colours.
const std::array<Lab, kPaletteEnd - kFirstOfCube>& palette() {
  static const std::array<Lab, kPaletteEnd - kFirstOfCube> all = [] {
    constexpr uint8_t kLevels[] = {0, 95, 135, 175, 215, 255};
    std::array<Lab, kPaletteEnd - kFirstOfCube> made;
    for (int i = kFirstOfCube; i < kPaletteEnd; ++i) {
      const int cube = i - kFirstOfCube;
      const auto grey = static_cast<uint8_t>(8 + 10 * (i - kFirstGrey));
      made[static_cast<size_t>(cube)] =
          lab(i < kFirstGrey ? Color{kLevels[cube / 36], kLevels[cube / 6 % 6], kLevels[cube % 6]}
                             : Color{grey, grey, grey});
    }
    return made;
  }();
  return all;
}

std::string parameters(Color c, TerminalColor color) {
  if (color == TerminalColor::palette256) return "5;" + std::to_string(nearest_palette_index(c));
  return "2;" + std::to_string(c.red) + ";" + std::to_string(c.green) + ";" +
         std::to_string(c.blue);
}

}  // namespace

int nearest_palette_index(Color color) {
  const Lab wanted = lab(color);
  const auto nearest = std::min_element(
      palette().begin(), palette().end(),
      [&](const Lab& x, const Lab& y) { return distance(x, wanted) < distance(y, wanted); });
  return kFirstOfCube + static_cast<int>(nearest - palette().begin());
}

void TerminalText::set(CellStyle style) {
  if (color_ == TerminalColor::ascii || style == current_) return;
  std::string codes;
  const auto add = [&codes](const std::string& code) {
    codes += (codes.empty() ? "" : ";") + code;
  };
  // A colour can be changed but not removed: if one is removed, all attributes are reset first.
  const bool reset = (current_.ink && !style.ink) || (current_.paper && !style.paper);
  if (reset) {
    add("0");
    current_ = {};
  }
  if (style.ink && style.ink != current_.ink) add("38;" + parameters(*style.ink, color_));
  if (style.paper && style.paper != current_.paper) add("48;" + parameters(*style.paper, color_));
  out_ += "\x1b[" + codes + "m";
  current_ = style;
}

void TerminalText::put(std::string_view utf8, CellStyle style) {
  if (utf8.empty()) return;
  set(style);
  out_ += utf8;
}

void TerminalText::put(std::u32string_view text, CellStyle style) { put(encode_utf8(text), style); }

void TerminalText::end_line() {
  set({});
  out_.erase(out_.find_last_not_of(' ') + 1);
  out_ += '\n';
}

}  // namespace rapt::viz

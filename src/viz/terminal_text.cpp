#include "viz/terminal_text.h"

#include <algorithm>
#include <cmath>

#include "viz/label_text.h"

namespace rapt::viz {
namespace {

int square_distance(Color a, Color b) {
  const int red = a.red - b.red, green = a.green - b.green, blue = a.blue - b.blue;
  return red * red + green * green + blue * blue;
}

std::string parameters(Color c, TerminalColor color) {
  if (color == TerminalColor::palette256) return "5;" + std::to_string(nearest_palette_index(c));
  return "2;" + std::to_string(c.red) + ";" + std::to_string(c.green) + ";" +
         std::to_string(c.blue);
}

}  // namespace

int nearest_palette_index(Color color) {
  constexpr uint8_t kLevels[] = {0, 95, 135, 175, 215, 255};  // of the cube, from index 16
  const auto level = [&](uint8_t v) {
    const auto nearer = [v](uint8_t a, uint8_t b) { return std::abs(a - v) < std::abs(b - v); };
    return static_cast<int>(std::min_element(kLevels, kLevels + 6, nearer) - kLevels);
  };
  const int red = level(color.red), green = level(color.green), blue = level(color.blue);
  const Color cube{kLevels[red], kLevels[green], kLevels[blue]};
  // 24 greys from index 232: 8, 18, ... 238.
  const int mean = (color.red + color.green + color.blue) / 3;
  const int step = std::clamp((mean - 8 + 5) / 10, 0, 23);
  const uint8_t v = static_cast<uint8_t>(8 + 10 * step);
  return square_distance({v, v, v}, color) < square_distance(cube, color)
             ? 232 + step
             : 16 + 36 * red + 6 * green + blue;
}

void TerminalText::set(CellStyle style) {
  if (color_ == TerminalColor::ascii || style == current_) return;
  std::string codes;
  const auto add = [&codes](const std::string& code) {
    codes += (codes.empty() ? "" : ";") + code;
  };
  // A colour can be changed but not taken back: start from nothing where one goes away.
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

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "rapt/viz/terminal.h"

namespace rapt::viz {
namespace {

constexpr int kMaxWidth = 2000;  // beyond any real terminal; limits a wrong COLUMNS

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int width_of(int file_descriptor, int otherwise) {
  winsize size{};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const std::string_view columns = environment("COLUMNS");
  int width = 0;
  const auto read = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  const bool whole = read.ec == std::errc() && read.ptr == columns.data() + columns.size();
  return whole && width > 0 ? width : otherwise;
}

TerminalColor color_of_environment() {
  const std::string_view term = environment("TERM"), color = environment("COLORTERM");
  if (term.empty() || term == "dumb") return TerminalColor::ascii;
  if (color == "truecolor" || color == "24bit" || term.ends_with("-direct"))
    return TerminalColor::truecolor;
  return term.find("256color") != std::string_view::npos ? TerminalColor::palette256
                                                         : TerminalColor::ascii;
}

}  // namespace

TerminalColor promised_color() {
  const TerminalColor color = color_of_environment();
  return color == TerminalColor::ascii ? TerminalColor::truecolor : color;
}

TerminalStyle detect_terminal(int file_descriptor) {
  TerminalStyle style;
  const bool wanted = isatty(file_descriptor) && environment("NO_COLOR").empty();
  style.color = wanted ? color_of_environment() : TerminalColor::ascii;
  style.width = std::clamp(width_of(file_descriptor, style.width), kMinTerminalWidth, kMaxWidth);
  return style;
}

}  // namespace rapt::viz

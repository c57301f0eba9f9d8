#pragma once
// What a terminal can show.
#include <cstdint>

namespace rapt::viz {

enum class TerminalColor : uint8_t {  // how many colours
  truecolor,                          // 24-bit escape sequences, half blocks
  palette256,                         // xterm's 256 colours, half blocks
  ascii,                              // no escape sequence; " .:-=+*#%@" from low to high
};

// Width below which to_terminal has no room for labels beside cells.
inline constexpr int kMinTerminalWidth = 20;

struct TerminalStyle {  // how to_terminal() draws
  TerminalColor color = TerminalColor::ascii;
  int width = 80;  // columns, at least kMinTerminalWidth
};

// What the file descriptor and the environment say. Not a terminal, NO_COLOR set and not empty,
// or TERM absent or "dumb": ascii. COLORTERM=truecolor or 24bit, or TERM *-direct: truecolor.
// TERM with "256color": palette256. Anything else: ascii. The width is the terminal's, else
// COLUMNS, else 80.
TerminalStyle detect_terminal(int file_descriptor);

// The colours that TERM and COLORTERM promise, whatever a file descriptor is and NO_COLOR says;
// truecolor where they promise none: for those who ask for colour in a pipe.
TerminalColor promised_color();

}  // namespace rapt::viz

#pragma once
// Lines of a terminal with colours: escape sequences only where a colour changes.
#include <optional>
#include <string>
#include <string_view>

#include "rapt/viz/color_map.h"
#include "rapt/viz/terminal.h"

namespace rapt::viz {

struct CellStyle {
  std::optional<Color> ink = {}, paper = {};  // absent: the terminal's own
  bool operator==(const CellStyle&) const = default;
};

class TerminalText {
 public:
  explicit TerminalText(TerminalColor color) : color_(color) {}

  void put(std::string_view utf8, CellStyle style = {});
  void put(std::u32string_view text, CellStyle style = {});
  void blanks(int count) { put(std::string(count > 0 ? static_cast<size_t>(count) : 0, ' ')); }
  void end_line();  // removes blanks at its end

  std::string finish() { return std::move(out_); }

 private:
  void set(CellStyle style);

  const TerminalColor color_;
  CellStyle current_;
  std::string out_;
};

// The index of the nearest of xterm's 256 colours, in the 6x6x6 cube or the grey ramp.
int nearest_palette_index(Color color);

}  // namespace rapt::viz

// A heatmap as lines of text, in one of three forms:
//   numbers  a coloured cell with its value per weight: few columns
//   blocks   two characters per weight, so that every row and column keeps its label
//   pixels   one character per column, two rows per line (U+2580) in colour; pooled to the width
// Without colour the characters " .:-=+*#%@" run from low to high, "/" is masked, "!" not finite.
// Hatched cells have "\" behind or in place of that character, and U+2572 over their colour; pixels
// are then one row per line.
// Labels keep their own script in any case.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "rapt/error.h"
#include "rapt/viz/heatmap.h"
#include "viz/cells.h"
#include "viz/contrast.h"
#include "viz/numbers.h"
#include "viz/terminal/terminal_text.h"
#include "viz/text/label_text.h"

namespace rapt::viz {
namespace {

constexpr std::string_view kRamp = " .:-=+*#%@";
constexpr Color kFaint{0x86, 0x8e, 0x96};
constexpr int64_t kMaxNumberColumns = 12;
constexpr int64_t kMaxLabelledRows = 40;  // one line each; about a screen
constexpr int kWidestLabelledCell = 12;
constexpr int kTallestLabel = 8;  // of labels written downwards
constexpr int kBlockWidth = 2;
constexpr int kAxisTitleWidth = 8;  // beyond it the title of the rows has a line of its own
constexpr int kWidestBar = 24;
constexpr int kLegendWidth = 12;  // of "! not finite"
constexpr const char* kLineOver = "\u2572";
constexpr int kTickLines = 5;  // between row numbers

enum class Form { numbers, blocks, pixels };

class Screen {
 public:
  Screen(const Heatmap& map, const TerminalStyle& style)
      : map_(map), style_(style), ascii_(style.color == TerminalColor::ascii), out_(style.color) {}

  std::string draw() {
    measure_labels();
    choose_form();
    const int64_t lines_limit = !half_blocks() ? std::max(1, room() / 2) : room();
    cells_ = form_ == Form::pixels ? pool(map_, lines_limit, room())
                                   : pool(map_, map_.rows, map_.columns);
    rows_per_line_ = half_blocks() ? 2 : 1;
    map_width_ = static_cast<int>(cells_.columns) * cell_width_;
    line(clean(map_.title));
    draw_column_heads();
    for (int64_t row = 0; row < cells_.rows; row += rows_per_line_) draw_row(row);
    if (map_.legend == Legend::bar) draw_bar();
    draw_legend();
    return out_.finish();
  }

 private:
  static double measure(std::u32string_view text) { return display_width(text); }
  std::u32string cut(std::u32string_view text, int limit) const {
    return shorten(text, limit, ascii_ ? U'~' : U'\u2026', measure);
  }
  static std::u32string clean(std::string_view utf8) { return with_plain_emoji(clean_text(utf8)); }
  void line(std::u32string_view text) {
    if (text.empty()) return;
    out_.put(kept_to_itself(cut(text, style_.width)));
    out_.end_line();
  }
  // Puts a text into a field; its position decides on which side blanks are added.
  enum class Stand { left, middle, right };
  void field(std::u32string_view text, int width, Stand stand, CellStyle style = {}) {
    const std::u32string shown = kept_to_itself(cut(text, width));
    const int blank = width - display_width(shown);
    const int before = stand == Stand::left ? 0 : stand == Stand::right ? blank : blank / 2;
    out_.put(std::u32string(static_cast<size_t>(before), U' ') + shown +
                 std::u32string(static_cast<size_t>(blank - before), U' '),
             style);
  }

  bool half_blocks() const { return form_ == Form::pixels && !ascii_ && map_.hatched.empty(); }
  std::string number(float value) const { return format_value(value, map_.decimals); }
  int room() const { return style_.width - label_width_ - 1; }

  void measure_labels() {
    const int limit = std::max(6, style_.width / 4);
    const int64_t last = positions(map_.rows, map_.positions_per_row) - 1;
    int widest = static_cast<int>(std::to_string(std::max<int64_t>(last, 0)).size());
    if (!map_.row_labels.empty()) widest = 0;
    for (const std::string& label : map_.row_labels)
      widest = std::max(widest, display_width(clean(label)));
    const int title = std::min(kAxisTitleWidth, display_width(clean(map_.y_label)));
    label_width_ = std::min(limit, std::max(widest, title));
  }

  static int64_t positions(int64_t cells, double each) {
    return std::llround(static_cast<double>(cells) * each);
  }

  void choose_form() {
    if (map_.annotate != Annotate::never) {
      size_t widest = 1;
      for (size_t i = 0; i < map_.values.size() && map_.columns <= kMaxVectorCells; ++i)
        if (map_.allowed.empty() || map_.allowed[i])
          widest = std::max(widest, number(map_.values[i]).size());
      // A blank on either side; without colour also a blank and the character of the ramp.
      number_width_ = static_cast<int>(widest) + (ascii_ ? 2 : 0);
      const int least = number_width_ + 2;
      const bool fits = least * map_.columns <= room();
      if (map_.annotate == Annotate::always && !fits)
        throw Error(ErrorCode::unsupported,
                    "heatmap: the values of " + std::to_string(map_.columns) +
                        " columns need a terminal of " +
                        std::to_string(least * map_.columns + label_width_ + 1) +
                        " characters, this one has " + std::to_string(style_.width) +
                        "; leave the values out, or draw fewer columns");
      if (fits && (map_.annotate == Annotate::always ||
                   (map_.columns <= kMaxNumberColumns && map_.rows <= kMaxLabelledRows))) {
        form_ = Form::numbers;
        int wanted = least;
        for (const std::string& label : map_.column_labels)
          wanted = std::max(wanted, display_width(clean(label)) + 2);
        cell_width_ = std::clamp(wanted, least, std::max(least, kWidestLabelledCell));
        cell_width_ = std::min(cell_width_, room() / static_cast<int>(map_.columns));
        return;
      }
    }
    const bool blocks = map_.rows <= kMaxLabelledRows && kBlockWidth * map_.columns <= room();
    form_ = blocks ? Form::blocks : Form::pixels;
    cell_width_ = blocks ? kBlockWidth : 1;
    // Lines of several rows name the first and the last one.
    if (!blocks && !map_.row_labels.empty())
      label_width_ = std::min(std::max(6, style_.width / 4), 2 * label_width_ + 3);
  }

  void draw_column_heads() {
    const std::u32string x_title = clean(map_.x_label), y_title = clean(map_.y_label);
    if (!x_title.empty() || !y_title.empty()) {
      const bool y_apart = display_width(y_title) > label_width_;
      if (y_apart) line(y_title);
      field(y_apart ? U"" : y_title, label_width_, Stand::right);
      out_.blanks(1);
      // A title wider than the map begins where the map begins.
      const bool wide = display_width(x_title) > map_width_;
      field(x_title, wide ? room() : map_width_, wide ? Stand::left : Stand::middle);
      out_.end_line();
    }
    if (map_.column_labels.empty() || form_ == Form::pixels ||
        (form_ == Form::blocks && columns_are_numbered())) {
      draw_column_numbers();
    } else if (form_ == Form::blocks) {
      draw_column_labels_downwards();
    } else {
      out_.blanks(label_width_ + 1);
      for (const std::string& label : map_.column_labels) {
        field(clean(label), cell_width_ - 1, Stand::middle);
        out_.blanks(1);
      }
      out_.end_line();
    }
  }

  // Whether the labels are "Key 0", "Key 1", ...: written downwards, only the numbers are shown.
  bool columns_are_numbered() const {
    const std::string& first = map_.column_labels.front();
    if (!first.ends_with(" 0")) return false;
    const std::string name = first.substr(0, first.size() - 1);
    for (size_t i = 0; i < map_.column_labels.size(); ++i)
      if (map_.column_labels[i] != name + std::to_string(i)) return false;
    return true;
  }

  void draw_column_numbers() {
    const int64_t end = positions(map_.columns, map_.positions_per_column);
    const int digits = static_cast<int>(std::to_string(std::max<int64_t>(end - 1, 0)).size());
    const double per_cell =
        static_cast<double>(cells_.columns_per_cell) * map_.positions_per_column;
    const int64_t step = round_step((digits + 1) / (cell_width_ / per_cell));
    std::string heads(static_cast<size_t>(map_width_), ' ');
    for (int64_t i = 0; i == 0 || i < end; i += step) {
      const std::string text = std::to_string(i);
      const int64_t at = static_cast<int64_t>(static_cast<double>(i) / per_cell) * cell_width_ +
                         std::max(0, cell_width_ - static_cast<int>(text.size())) / 2;
      if (at + std::ssize(text) <= std::ssize(heads))
        heads.replace(static_cast<size_t>(at), text.size(), text);
    }
    out_.blanks(label_width_ + 1);
    out_.put(heads);
    out_.end_line();
  }

  // Draws labels with one character per line, the last ones just above the map.
  void draw_column_labels_downwards() {
    std::vector<std::vector<std::u32string>> stacks;
    size_t tallest = 0;
    for (const std::string& label : map_.column_labels) {
      std::vector<std::u32string>& stack = stacks.emplace_back();
      for (const std::u32string& letter : letters(clean(label))) {
        if (display_width(letter) <= kBlockWidth) {
          stack.push_back(letter);
        } else {  // several vowel signs
          for (const char32_t c : letter) stack.emplace_back(1, c);
        }
      }
      if (stack.size() > kTallestLabel) {
        stack.resize(kTallestLabel);
        stack.back() = ascii_ ? U"~" : U"\u2026";
      }
      tallest = std::max(tallest, stack.size());
    }
    for (size_t i = 0; i < tallest; ++i) {
      out_.blanks(label_width_ + 1);
      for (const auto& stack : stacks) {
        const size_t above = tallest - stack.size();
        field(i < above ? U"" : stack[i - above], kBlockWidth, Stand::left);
      }
      out_.end_line();
    }
  }

  std::u32string row_label(int64_t row) const {  // of the cells
    const int64_t first = row * cells_.rows_per_cell;
    const int64_t per_line = cells_.rows_per_cell * rows_per_line_;
    const int64_t end = std::min(first + per_line, map_.rows);
    if (!map_.row_labels.empty()) {
      std::u32string label = clean(map_.row_labels[static_cast<size_t>(first)]);
      if (end == first + 1) return label;
      const std::u32string last = clean(map_.row_labels[static_cast<size_t>(end - 1)]);
      // Shows both words if there is room; else the first one, followed by dots for the others.
      std::u32string both = label + (ascii_ ? U" ~ " : U" \u2026 ") + last;
      if (display_width(both) <= label_width_) return both;
      const bool room_for_dots = display_width(label) + 2 <= label_width_;
      return room_for_dots ? label + (ascii_ ? U" ~" : U" \u2026") : label;
    }
    int64_t step = 1;
    const double each = map_.positions_per_row;
    const double lines_apart = static_cast<double>(kTickLines * per_line) * each;
    if (form_ == Form::pixels) step = round_step(lines_apart);
    // The first tick in this line.
    const auto tick = static_cast<int64_t>(std::ceil(static_cast<double>(first) * each /
                                                     static_cast<double>(step))) *
                      step;
    if (tick >= positions(end, each)) return U"";
    const std::string text = std::to_string(tick);
    return std::u32string(text.begin(), text.end());
  }

  void draw_row(int64_t row) {
    field(row_label(row), label_width_, Stand::right);
    out_.blanks(1);
    for (int64_t column = 0; column < cells_.columns; ++column) {
      if (form_ == Form::numbers)
        draw_number(row, column);
      else if (half_blocks())
        draw_half_blocks(row, column);
      else
        draw_block(row, column);
    }
    out_.end_line();
  }

  Color color(int64_t row, int64_t column) const {
    return cells_.kind(row, column) == CellKind::non_finite
               ? kNonFiniteColor
               : map_.colors.at(cells_.position(cells_.value(row, column)));
  }

  char ramp(int64_t row, int64_t column) const {
    switch (cells_.kind(row, column)) {
      case CellKind::masked:
        return '/';
      case CellKind::non_finite:
        return '!';
      case CellKind::value:
        break;
    }
    if (map_.legend == Legend::allowed) return kRamp.back();
    const double levels = static_cast<double>(kRamp.size());
    const double position = cells_.position(cells_.value(row, column)) * levels;
    return kRamp[static_cast<size_t>(std::clamp(std::floor(position), 0.0, levels - 1))];
  }

  void draw_number(int64_t row, int64_t column) {
    const bool masked = cells_.kind(row, column) == CellKind::masked;
    std::string text = masked ? "" : number(cells_.value(row, column));
    if (ascii_) {
      const int digits = number_width_ - 2;
      text.insert(0, static_cast<size_t>(digits) - text.size(), ' ');
      text += std::string(" ") + (cells_.is_hatched(row, column) ? '\\' : ramp(row, column));
    }
    if (!ascii_ && cells_.is_hatched(row, column)) text += kLineOver;
    const std::u32string shown = masked && !ascii_ ? U"\u00b7" : clean_text(text);
    CellStyle style{kFaint, {}};
    if (!masked) {
      const Color paper = color(row, column);
      style = {text_color(paper), paper};
    }
    field(shown, cell_width_, Stand::middle, style);
  }

  void draw_block(int64_t row, int64_t column) {
    const bool lines = cells_.is_hatched(row, column);
    if (ascii_) {
      std::string characters(static_cast<size_t>(cell_width_), ramp(row, column));
      if (lines) characters.back() = '\\';
      out_.put(characters);
    } else if (cells_.kind(row, column) == CellKind::masked) {
      out_.put(cell_width_ == 1 ? "\u00b7" : "\u00b7 ", {kFaint, {}});
    } else {
      const Color paper = color(row, column);
      const std::string blank(static_cast<size_t>(cell_width_ - 1), ' ');
      if (lines)
        out_.put(blank + kLineOver, {text_color(paper), paper});
      else
        out_.put(blank + " ", {{}, paper});
    }
  }

  void draw_half_blocks(int64_t row, int64_t column) {
    const auto shown = [&](int64_t r) {
      return r < cells_.rows && cells_.kind(r, column) != CellKind::masked;
    };
    const bool upper = shown(row), lower = shown(row + 1);
    if (upper && lower)
      out_.put("\u2580", {color(row, column), color(row + 1, column)});
    else if (upper)
      out_.put("\u2580", {color(row, column), {}});
    else if (lower)
      out_.put("\u2584", {color(row + 1, column), {}});
    else
      out_.put("\u00b7", {kFaint, {}});
  }

  void draw_bar() {
    const std::string low = format_short(cells_.range.low), high = format_short(cells_.range.high);
    const int numbers = static_cast<int>(low.size() + high.size());
    const int least = ascii_ ? static_cast<int>(kRamp.size()) + 2 : 4;  // of the bar itself
    const bool fits = numbers + 2 + least <= style_.width;              // else three lines
    const int before = fits ? std::min(label_width_ + 1, style_.width - numbers - 2 - least)
                            : std::min(label_width_ + 1, style_.width - least);
    const int width = std::min(kWidestBar, style_.width - before - (fits ? numbers + 2 : 0));
    const auto next_line = [&] {
      if (fits) return out_.put(" ");
      out_.end_line();
      out_.blanks(before);
    };
    out_.blanks(before);
    out_.put(low);
    next_line();
    if (ascii_)
      out_.put("[" + std::string(kRamp) + "]");
    else
      for (int i = 0; i < width; ++i) out_.put(" ", {{}, map_.colors.at((i + 0.5) / width)});
    next_line();
    out_.put(high);
    out_.end_line();
  }

  void draw_legend() {
    const int before = std::min(label_width_ + 1, style_.width - kLegendWidth);
    if (map_.legend == Legend::allowed) {
      out_.blanks(before);
      if (ascii_)
        out_.put(std::string(1, kRamp.back()));
      else
        out_.put(" ", {{}, map_.colors.at(kAllowedPosition)});
      out_.put(" allowed");
      out_.end_line();
    }
    if (cells_.any_masked) {
      out_.blanks(before);
      out_.put(ascii_ ? "/" : "\u00b7", {kFaint, {}});
      out_.put(" masked");
      out_.end_line();
    }
    if (cells_.any_hatched) {
      out_.blanks(before);
      out_.put(ascii_ ? "\\" : kLineOver);
      out_.put(" ");
      out_.put(kept_to_itself(cut(clean(map_.hatched_label), style_.width - before - 2)));
      out_.end_line();
    }
    if (cells_.any_non_finite) {
      out_.blanks(before);
      if (ascii_)
        out_.put("!");
      else
        out_.put(" ", {{}, kNonFiniteColor});
      out_.put(" not finite");
      out_.end_line();
    }
    const std::string times = ascii_ ? " x " : " \u00d7 ";
    if (cells_.rows_per_cell * cells_.columns_per_cell > 1)
      line(clean_text(std::to_string(map_.rows) + times + std::to_string(map_.columns) +
                      ", each cell the maximum of " + std::to_string(cells_.rows_per_cell) + times +
                      std::to_string(cells_.columns_per_cell)));
    if (cells_.any_clipped) line(U"values beyond the bar take its end colours");
  }

  const Heatmap& map_;
  const TerminalStyle style_;
  const bool ascii_;
  TerminalText out_;

  Form form_ = Form::pixels;
  Cells cells_;
  int label_width_ = 0, cell_width_ = 1, number_width_ = 0, map_width_ = 0;
  int64_t rows_per_line_ = 1;
};

}  // namespace

std::string to_terminal(const Heatmap& map, const TerminalStyle& style) {
  if (style.width < kMinTerminalWidth)
    throw Error(ErrorCode::argument, "heatmap: expected a terminal of at least " +
                                         std::to_string(kMinTerminalWidth) + " characters, got " +
                                         std::to_string(style.width));
  check(map);
  return Screen(map, style).draw();
}

}  // namespace rapt::viz

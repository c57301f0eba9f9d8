// A line chart as lines of text: a marker per point of series with dots, small characters between
// points, and the names of the series right of the plot, or below it where the terminal is narrow.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "rapt/error.h"
#include "rapt/viz/chart.h"
#include "viz/chart/chart_scale.h"
#include "viz/chart/chart_values.h"
#include "viz/chart/series_style.h"
#include "viz/chart/spread.h"
#include "viz/page_style.h"
#include "viz/terminal/terminal_text.h"
#include "viz/text/label_text.h"

namespace rapt::viz {
namespace {

constexpr int kPlotRows = 17;
constexpr int kNarrowestPlot = 24;  // below it, names stand under the plot
constexpr int kRowsPerTick = 3;
constexpr int kKeyColumns = 3;  // blank, character, blank
// By MarkerShape.
constexpr std::u32string_view kMarkerTexts = U"\u25cf\u25a0\u25b2\u25c6\u25bc+\u00d7";
constexpr std::u32string_view kAsciiMarkerTexts = U"o#^*v+x";
// Between points, by the pattern of the dashes.
constexpr std::u32string_view kDots = U"\u00b7:~',;\"", kAsciiDots = U".:~',;\"";

class ChartScreen {
 public:
  ChartScreen(const LineChart& chart, const TerminalStyle& style)
      : chart_(chart),
        width_(style.width),
        ascii_(style.color == TerminalColor::ascii),
        x_(x_scale_of(chart)),
        y_(y_scale_of(chart)),
        styles_(series_styles(chart.series)),
        out_(style.color) {}

  std::string draw() {
    collect_names();
    rows_ = kPlotRows;
    if (names_beside_) rows_ = std::max(rows_, static_cast<int>(names_.size()));
    cells_.assign(static_cast<size_t>(rows_ * columns_), {});
    draw_lines();
    for (size_t k = 0; k < chart_.series.size(); ++k) draw_curve(k);
    for (size_t k = 0; k < chart_.series.size(); ++k) draw_markers(k);
    put_line(clean(chart_.title));
    put_line(clean(chart_.y_axis.label));
    put_plot();
    put_x_axis();
    if (!names_beside_)
      for (const Name& name : names_) put_name(name);
    put_note();
    return out_.finish();
  }

 private:
  struct Cell {
    char32_t character = U' ';
    Color ink{};
    bool line_across = false;
  };
  struct Name {
    std::u32string text;
    char32_t character;
    Color ink;
    double row;  // of the end of what it names
  };

  static std::u32string clean(const std::string& text) {
    return with_plain_emoji(clean_text(text));
  }
  std::u32string cut(const std::u32string& text, int limit) const {
    return shorten(text, limit, ascii_ ? U'~' : U'\u2026',
                   [](std::u32string_view t) { return display_width(t); });
  }
  void put_line(const std::u32string& text) {
    if (text.empty()) return;
    out_.put(kept_to_itself(cut(text, width_)));
    out_.end_line();
  }

  std::u32string tick_of(const Tick& tick) const {
    std::u32string text = clean_text(tick.text);
    if (ascii_) std::replace(text.begin(), text.end(), U'\u00b5', U'u');
    return text;
  }

  char32_t between(const SeriesStyle& style) const {
    return (ascii_ ? kAsciiDots : kDots)[style.pattern];
  }
  char32_t character_of(const SeriesStyle& style) const {
    if (!style.marker) return between(style);
    return (ascii_ ? kAsciiMarkerTexts : kMarkerTexts)[static_cast<size_t>(*style.marker)];
  }
  char32_t across() const { return ascii_ ? U'-' : U'\u2500'; }

  // The names, and the room that they leave.
  void collect_names() {
    const auto add = [&](const std::string& name, char32_t character, Color ink, double y) {
      if (std::u32string text = clean(name); !text.empty())
        names_.push_back({std::move(text), character, ink, 1 - y_.part(y)});
    };
    for (size_t k = 0; k < chart_.series.size(); ++k) {
      const Series& series = chart_.series[k];
      size_t last = series.x.size();
      while (last > 0 && !shows_point(chart_, series, last - 1)) --last;
      if (last > 0)
        add(series.name, character_of(styles_[k]), styles_[k].color, series.y[last - 1]);
    }
    for (const LineAcross& line : chart_.lines)
      if (ChartScale::shows(chart_.y_axis.scale, line.y))
        add(line.name, across(), kFaintInk, line.y);
    y_ticks_ = y_.ticks(kPlotRows / kRowsPerTick);
    for (const Tick& tick : y_ticks_)
      tick_columns_ = std::max(tick_columns_, display_width(tick_of(tick)));
    tick_columns_ = std::min(tick_columns_, width_ / 3);
    int widest = 0;
    for (const Name& name : names_) widest = std::max(widest, display_width(name.text));
    name_columns_ = std::min(widest, 2 * width_ / 5);
    columns_ = width_ - tick_columns_ - 1;
    names_beside_ = columns_ - kKeyColumns - name_columns_ >= kNarrowestPlot;
    if (names_beside_ && !names_.empty()) columns_ -= kKeyColumns + name_columns_;
  }

  int column_of(double x) const {
    return static_cast<int>(std::lround(x_.part(x) * (columns_ - 1)));
  }
  int row_of(double y) const {
    return static_cast<int>(std::lround((1 - y_.part(y)) * (rows_ - 1)));
  }
  Cell& cell(int row, int column) { return cells_[static_cast<size_t>(row * columns_ + column)]; }

  void draw_lines() {
    for (const LineAcross& line : chart_.lines) {
      if (!ChartScale::shows(chart_.y_axis.scale, line.y)) continue;
      for (int column = 0; column < columns_; ++column)
        cell(row_of(line.y), column) = {across(), kFaintInk, true};
    }
  }

  void draw_curve(size_t k) {
    const Series& series = chart_.series[k];
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!shows_point(chart_, series, i)) continue;
      const bool joined = i > 0 && shows_point(chart_, series, i - 1);
      const size_t from = joined ? i - 1 : i;
      const int column = column_of(series.x[from]), row = row_of(series.y[from]);
      const int right = column_of(series.x[i]) - column, down = row_of(series.y[i]) - row;
      const int steps = std::max({std::abs(right), std::abs(down), 1});
      for (int step = 0; step <= steps; ++step) {
        const double part = static_cast<double>(step) / steps;
        Cell& at = cell(row + static_cast<int>(std::lround(down * part)),
                        column + static_cast<int>(std::lround(right * part)));
        if (at.character == U' ' || at.line_across)
          at = {between(styles_[k]), styles_[k].color, false};
      }
    }
  }

  void draw_markers(size_t k) {
    const Series& series = chart_.series[k];
    if (!styles_[k].marker) return;
    for (size_t i = 0; i < series.x.size(); ++i)
      if (shows_point(chart_, series, i))
        cell(row_of(series.y[i]), column_of(series.x[i])) = {character_of(styles_[k]),
                                                             styles_[k].color, false};
  }

  void put_plot() {
    std::vector<double> places;
    for (const Name& name : names_) places.push_back(name.row * (rows_ - 1));
    if (names_beside_) places = spread(places, 1, 0, rows_ - 1);
    for (int row = 0; row < rows_; ++row) {
      std::u32string text;
      for (const Tick& tick : y_ticks_)
        if (row_of(tick.value) == row) text = cut(tick_of(tick), tick_columns_);
      out_.blanks(tick_columns_ - display_width(text));
      out_.put(text);
      out_.put(ascii_ ? "|" : "\u2502");
      for (int column = 0; column < columns_; ++column) {
        const Cell& at = cell(row, column);
        CellStyle style;
        if (at.character != U' ') style.ink = at.ink;
        out_.put(std::u32string(1, at.character), style);
      }
      for (size_t i = 0; names_beside_ && i < names_.size(); ++i)
        // Places are at least 1 apart, so no two are rounded to one row.
        if (static_cast<int>(std::floor(places[i] + 0.5)) == row) put_key(names_[i]);
      out_.end_line();
    }
  }

  void put_key(const Name& name) {
    out_.put(U" " + std::u32string(1, name.character), {name.ink, {}});
    out_.put(" ");
    out_.put(kept_to_itself(cut(name.text, name_columns_)));
  }

  void put_name(const Name& name) {
    out_.put(std::u32string(1, name.character), {name.ink, {}});
    out_.put(" ");
    out_.put(kept_to_itself(cut(name.text, width_ - 2)));
    out_.end_line();
  }

  // The first column of the text of a tick below the plot, which stays on the screen.
  int begin_of(const Tick& tick) const {
    const int length = display_width(tick_of(tick));
    const int middle = tick_columns_ + 1 + column_of(tick.value);
    return std::clamp(middle - length / 2, 0, std::max(0, width_ - length));
  }

  std::vector<Tick> fitting_ticks() const {
    for (int count = columns_ / 6 + 1;; --count) {
      std::vector<Tick> ticks = x_.ticks(count);
      bool fits = true;
      for (size_t i = 1; i < ticks.size(); ++i)
        fits = fits &&
               begin_of(ticks[i - 1]) + display_width(tick_of(ticks[i - 1])) < begin_of(ticks[i]);
      if (fits) return ticks;
      if (count <= 1) return {ticks.front()};
    }
  }

  void put_x_axis() {
    const std::vector<Tick> ticks = fitting_ticks();
    std::u32string axis(static_cast<size_t>(columns_), ascii_ ? U'-' : U'\u2500');
    for (const Tick& tick : ticks)
      axis[static_cast<size_t>(column_of(tick.value))] = ascii_ ? U'+' : U'\u252c';
    out_.blanks(tick_columns_);
    out_.put((ascii_ ? U"+" : U"\u2514") + axis);
    out_.end_line();
    int end = 0;
    for (const Tick& tick : ticks) {
      const std::u32string text = cut(tick_of(tick), width_);
      out_.blanks(begin_of(tick) - end);
      out_.put(text);
      end = begin_of(tick) + display_width(text);
    }
    out_.end_line();
    const std::u32string label = cut(clean(chart_.x_axis.label), width_);
    if (label.empty()) return;
    const int centered = tick_columns_ + 1 + (columns_ - display_width(label)) / 2;
    out_.blanks(std::clamp(centered, 0, width_ - display_width(label)));
    out_.put(kept_to_itself(label));
    out_.end_line();
  }

  // Broken at blanks.
  void put_note() {
    std::u32string line;
    std::u32string rest = clean(chart_.note);
    while (!rest.empty()) {
      const size_t blank = std::min(rest.find(U' '), rest.size());
      const std::u32string word = rest.substr(0, blank);
      rest.erase(0, std::min(blank + 1, rest.size()));
      if (!line.empty() && display_width(line) + 1 + display_width(word) > width_) {
        put_line(line);
        line.clear();
      }
      line += (line.empty() ? U"" : U" ") + word;
    }
    put_line(line);
  }

  const LineChart& chart_;
  const int width_;
  const bool ascii_;
  const ChartScale x_, y_;
  const std::vector<SeriesStyle> styles_;
  TerminalText out_;
  std::vector<Name> names_;
  std::vector<Tick> y_ticks_;
  std::vector<Cell> cells_;  // [rows, columns]
  int tick_columns_ = 0, name_columns_ = 0, columns_ = 0, rows_ = 0;
  bool names_beside_ = false;
};

}  // namespace

std::string to_terminal(const LineChart& chart, const TerminalStyle& style) {
  if (style.width < kMinTerminalWidth)
    throw Error(ErrorCode::argument, "chart: expected a terminal of at least " +
                                         std::to_string(kMinTerminalWidth) + " characters, got " +
                                         std::to_string(style.width));
  check_chart(chart);
  return ChartScreen(chart, style).draw();
}

}  // namespace rapt::viz

#pragma once
// The layout of one line chart of a page: title, grid, lines across, curves, axes, names, note.
#include <string>
#include <vector>

#include "rapt/viz/chart.h"
#include "viz/chart/chart_scale.h"
#include "viz/chart/series_style.h"
#include "viz/drawing.h"
#include "viz/text/ruler.h"

namespace rapt::viz {

class ChartPanel {
 public:
  static constexpr double kPlotWidth = 560;

  // A checked chart, which must outlive the panel.
  ChartPanel(const LineChart& chart, Foreign foreign);

  double left() const;   // room that it needs left of the plot,
  double right() const;  // and right of it

  // Paints the chart below what the drawing holds, with the left side of the plot at `x`, and adds
  // its height to the drawing.
  void paint(Drawing& drawing, double x);

 private:
  // A name beside the right side of the plot.
  struct Label {
    std::u32string text;
    Point end;      // of what it names
    size_t series;  // or, from chart_.series.size() on, the line across
    double place;   // where it stands
  };

  double widest(const std::vector<Tick>& ticks) const;
  std::vector<Tick> fitting_x_ticks() const;
  std::vector<Label> labels() const;
  std::u32string name_of(size_t index) const;
  Point at(double x, double y) const;
  void text(double x, double y, Anchor anchor, const std::u32string& text, Turn turn = Turn::none);
  void paint_title();
  void paint_grid();
  void paint_lines();
  void paint_curves(size_t k);
  void paint_labels();
  void paint_key(const Label& label, double x);
  void paint_x_axis();
  void paint_y_title();
  void paint_note();

  const LineChart& chart_;
  const Ruler ruler_;
  const ChartScale x_, y_;
  const std::vector<SeriesStyle> styles_;
  const std::vector<Tick> x_ticks_, y_ticks_;
  std::u32string y_title_;
  double widest_name_ = 0;
  Box plot_{};
  Drawing* out_ = nullptr;
};

}  // namespace rapt::viz

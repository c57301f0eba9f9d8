#include "viz/chart/chart_layout.h"

#include <algorithm>
#include <cmath>

#include "rapt/error.h"
#include "viz/chart/chart_panel.h"
#include "viz/chart/chart_values.h"
#include "viz/contrast.h"
#include "viz/page_style.h"
#include "viz/text/label_text.h"
#include "viz/text/ruler.h"

namespace rapt::viz {
namespace {

constexpr double kBetweenCharts = 18;

int64_t boxes_in(const Drawing& drawing) {
  int64_t boxes = 0;
  for (const Shape& shape : drawing.shapes)
    if (const Text* const text = std::get_if<Text>(&shape)) boxes += count_boxes(text->text);
  return boxes;
}

// Says what boxes are, if there are some.
void add_boxed_caption(Drawing& drawing, const Ruler& ruler) {
  if (boxes_in(drawing) == 0) return;
  for (const std::u32string& line :
       ruler.wrap(clean_text(kBoxedCaption), drawing.width - 2 * kMargin, kCaptionFont,
                  kMaxCaptionLines)) {
    drawing.shapes.push_back(Text{kMargin, drawing.height + kCaptionFont / 2, kCaptionFont,
                                  Anchor::start, Turn::none, Weight::normal, kFaintInk, line});
    drawing.height += kCaptionFont * kLineHeight;
  }
}

}  // namespace

Drawing lay_out(const std::vector<LineChart>& charts, Foreign foreign) {
  if (charts.empty()) throw Error(ErrorCode::shape, "expected at least one chart, got none");
  for (const LineChart& chart : charts) check_chart(chart);
  std::vector<ChartPanel> panels;
  for (const LineChart& chart : charts) panels.emplace_back(chart, foreign);
  double left = 0, right = 0;
  for (const ChartPanel& panel : panels) {
    left = std::max(left, panel.left());
    right = std::max(right, panel.right());
  }
  Drawing drawing;
  drawing.title = clean_text(charts.front().title);
  left = std::ceil(kMargin + left);
  drawing.width = std::ceil(left + ChartPanel::kPlotWidth + right + kMargin);
  drawing.height = kMargin;  // so far
  for (ChartPanel& panel : panels) {
    if (&panel != &panels.front()) drawing.height += kBetweenCharts;
    panel.paint(drawing, left);
  }
  if (foreign == Foreign::as_box) add_boxed_caption(drawing, Ruler(foreign));
  drawing.height = std::ceil(drawing.height + kMargin);
  return drawing;
}

}  // namespace rapt::viz

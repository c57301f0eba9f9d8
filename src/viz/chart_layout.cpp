#include "viz/chart_layout.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "rapt/error.h"
#include "viz/contrast.h"
#include "viz/numbers.h"
#include "viz/page_style.h"
#include "viz/text/label_text.h"
#include "viz/text/ruler.h"

namespace rapt::viz {
namespace {

constexpr double kPlotWidth = 560, kPlotHeight = 320;
constexpr double kCurveWidth = 1.5, kDotWidth = 6;
constexpr double kKeyLength = 20, kKeyGap = 18;  // a legend's piece of curve; between two entries
constexpr double kLongestName = kPlotWidth / 2;
constexpr double kTickRoom = 24;   // beside the text of a tick of the x axis
constexpr double kBelowTicks = 6;  // so that the first text of one axis clears that of the other
constexpr int kMostXTicks = 8, kYTicks = 6;
// The room above and below the curves, as a share of the range of y.
constexpr double kHeadroom = 0.05;
// Ranges below it count as one value: quotients of their parts would not be finite.
constexpr double kLeastRange = 1e-300;

constexpr Color kGridColor{0xe3, 0xe6, 0xe9};
constexpr Color kCurveColors[] = {{0x00, 0x72, 0xb2}, {0xd5, 0x5e, 0x00}, {0x00, 0x9e, 0x73},
                                  {0xcc, 0x79, 0xa7}, {0xe6, 0x9f, 0x00}, {0x56, 0xb4, 0xe9}};
static_assert(std::size(kCurveColors) == kMaxSeries);

bool is_finite_point(const Series& series, size_t i) {
  return std::isfinite(series.x[i]) && std::isfinite(series.y[i]);
}

void check_chart(const LineChart& chart) {
  if (chart.series.size() > kMaxSeries)
    throw Error(ErrorCode::unsupported, "a chart has at most " + std::to_string(kMaxSeries) +
                                            " series, got " + std::to_string(chart.series.size()));
  size_t finite = 0;
  for (size_t k = 0; k < chart.series.size(); ++k) {
    const Series& series = chart.series[k];
    if (series.x.size() != series.y.size())
      throw Error(ErrorCode::shape, "series " + std::to_string(k) + ": expected as many y as x, " +
                                        std::to_string(series.x.size()) + ", got " +
                                        std::to_string(series.y.size()));
    for (size_t i = 0; i < series.x.size(); ++i) finite += is_finite_point(series, i);
  }
  if (finite == 0) throw Error(ErrorCode::shape, "a chart needs a finite point, got none");
}

// The range of an axis. part() is the place of a value in it, from 0 to 1.
struct Scale {
  double low, high;
  double part(double value) const { return (value - low) / (high - low); }
};

Scale scale_of(const LineChart& chart, std::vector<double> Series::*values) {
  Scale scale{INFINITY, -INFINITY};
  for (const Series& series : chart.series) {
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!is_finite_point(series, i)) continue;
      scale.low = std::min(scale.low, (series.*values)[i]);
      scale.high = std::max(scale.high, (series.*values)[i]);
    }
  }
  if (!std::isfinite(2 * (scale.high - scale.low)) || !std::isfinite(2 * scale.high) ||
      !std::isfinite(2 * scale.low))
    throw Error(ErrorCode::argument, "the differences of the values of a chart are beyond double");
  if (scale.high - scale.low < kLeastRange) {  // one value: in the middle
    const double reach = scale.high == 0 ? 1 : std::max(std::fabs(scale.high) / 2, kLeastRange);
    scale = {scale.low - reach, scale.high + reach};
  }
  return scale;
}

// With room above and below. Values of one sign keep an axis of one sign.
Scale with_headroom(const Scale& scale) {
  const double room = kHeadroom * (scale.high - scale.low);
  return {scale.low >= 0 ? std::max(0.0, scale.low - room) : scale.low - room,
          scale.high <= 0 ? std::min(0.0, scale.high + room) : scale.high + room};
}

// With 0, where it is near: a tenth of the range.
Scale from_zero(const Scale& scale) {
  const bool near = scale.low > 0 && 10 * scale.low <= scale.high - scale.low;
  return {near ? 0 : scale.low, scale.high};
}

class ChartLayout {
 public:
  ChartLayout(const LineChart& chart, Foreign foreign)
      : chart_(chart),
        foreign_(foreign),
        ruler_(foreign),
        x_(from_zero(scale_of(chart, &Series::x))),
        y_(with_headroom(scale_of(chart, &Series::y))) {}

  Drawing make() {
    y_ticks_ = round_ticks(y_.low, y_.high, kYTicks);
    x_ticks_ = fitting_ticks();
    place_columns();
    paint_title();
    paint_legend();
    plot_.y = std::ceil(bottom_ + kAxisTitleGap);
    paint_grid();
    for (size_t k = 0; k < chart_.series.size(); ++k) paint_curve(k);
    paint_x_axis();
    paint_y_title();
    paint_caption();
    out_.height = std::ceil(bottom_ + kMargin);
    return std::move(out_);
  }

 private:
  double widest(const std::vector<Tick>& ticks) const {
    double widest = 0;
    for (const Tick& tick : ticks)
      widest = std::max(widest, ruler_.width(clean_text(tick.text), kLabelFont));
    return widest;
  }

  // As many ticks of the x axis as have room side by side.
  std::vector<Tick> fitting_ticks() const {
    for (int count = kMostXTicks;; --count) {
      std::vector<Tick> ticks = round_ticks(x_.low, x_.high, count);
      const double needed = static_cast<double>(ticks.size()) * (widest(ticks) + kTickRoom);
      if (count == 1 || needed <= kPlotWidth) return ticks;
    }
  }

  void place_columns() {
    out_.title = clean_text(chart_.title);
    y_title_ = ruler_.cut(clean_text(chart_.y_label), kPlotHeight, kLabelFont);
    double left = kMargin + widest(y_ticks_) + kTickLength + kTickGap;
    if (!y_title_.empty()) left += text_height(kLabelFont) + kAxisTitleGap;
    // The text of a tick at an end of the x axis stands half beyond it.
    const double overhang = widest(x_ticks_) / 2;
    plot_ = {std::ceil(std::max(left, kMargin + overhang)), 0, kPlotWidth, kPlotHeight};
    out_.width = std::ceil(plot_.x + kPlotWidth + overhang + kMargin);
    bottom_ = kMargin;
  }

  void text(double x, double y, double font, Anchor anchor, std::u32string text, Color color = kInk,
            Turn turn = Turn::none, Weight weight = Weight::normal) {
    if (foreign_ == Foreign::as_box) boxes_ += count_boxes(text);
    if (!text.empty())
      out_.shapes.push_back(Text{x, y, font, anchor, turn, weight, color, std::move(text)});
  }

  void paint_title() {
    const double center = plot_.x + kPlotWidth / 2;
    for (const std::u32string& line :
         ruler_.wrap(out_.title, kPlotWidth, kTitleFont * kBold, kMaxTitleLines)) {
      text(center, bottom_ + kTitleFont / 2, kTitleFont, Anchor::middle, line, kInk, Turn::none,
           Weight::bold);
      bottom_ += kTitleFont * kLineHeight;
    }
    if (!out_.title.empty()) bottom_ += kTitleGap - (kLineHeight - 1) * kTitleFont;
  }

  // Entries side by side, in as many lines as they need.
  void paint_legend() {
    const double line_height = kLineHeight * kLabelFont;
    double x = plot_.x;
    bool any = false;
    for (size_t k = 0; k < chart_.series.size(); ++k) {
      const std::u32string name =
          ruler_.cut(clean_text(chart_.series[k].name), kLongestName, kLabelFont);
      if (name.empty()) continue;
      const double end = x + kKeyLength + kLegendGap + ruler_.width(name, kLabelFont);
      if (x > plot_.x && end > plot_.x + kPlotWidth) {
        bottom_ += line_height;
        x = plot_.x;
      }
      const double middle = bottom_ + line_height / 2;
      out_.shapes.push_back(
          Curve{{{x, middle}, {x + kKeyLength, middle}}, kCurveWidth, kCurveColors[k]});
      if (chart_.series[k].dots)
        out_.shapes.push_back(Curve{{{x + kKeyLength / 2, middle}}, kDotWidth, kCurveColors[k]});
      text(x + kKeyLength + kLegendGap, middle, kLabelFont, Anchor::start, name);
      x += kKeyLength + kLegendGap + ruler_.width(name, kLabelFont) + kKeyGap;
      any = true;
    }
    if (any) bottom_ += line_height;
  }

  double at_x(double value) const { return plot_.x + kPlotWidth * x_.part(value); }
  double at_y(double value) const { return plot_.y + kPlotHeight * (1 - y_.part(value)); }

  void paint_grid() {
    const double right = plot_.x + kPlotWidth;
    for (const Tick& tick : y_ticks_) {
      const double y = at_y(tick.value);
      out_.shapes.push_back(Line{plot_.x, y, right, y, kGridColor});
      text(plot_.x - kTickLength - kTickGap, y, kLabelFont, Anchor::end, clean_text(tick.text));
    }
  }

  void paint_curve(size_t k) {
    const Series& series = chart_.series[k];
    std::vector<Curve> curves(1, {{}, kCurveWidth, kCurveColors[k]});
    std::vector<Curve> dots;
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!is_finite_point(series, i)) {
        curves.push_back({{}, kCurveWidth, kCurveColors[k]});
        continue;
      }
      const Point point{at_x(series.x[i]), at_y(series.y[i])};
      curves.back().points.push_back(point);
      if (series.dots) dots.push_back({{point}, kDotWidth, kCurveColors[k]});
    }
    for (Curve& curve : curves)
      if (!curve.points.empty()) out_.shapes.push_back(std::move(curve));
    out_.shapes.insert(out_.shapes.end(), dots.begin(), dots.end());
  }

  void paint_x_axis() {
    const double y = plot_.y + kPlotHeight;
    out_.shapes.push_back(Line{plot_.x, y, plot_.x + kPlotWidth, y, kAxisColor});
    const double below = y + kTickLength + kBelowTicks;
    for (const Tick& tick : x_ticks_) {
      const double x = at_x(tick.value);
      out_.shapes.push_back(Line{x, y, x, y + kTickLength, kAxisColor});
      text(x, below + text_height(kLabelFont) / 2, kLabelFont, Anchor::middle,
           clean_text(tick.text));
    }
    bottom_ = below + text_height(kLabelFont);
    const std::u32string title = ruler_.cut(clean_text(chart_.x_label), kPlotWidth, kLabelFont);
    if (title.empty()) return;
    bottom_ += kAxisTitleGap + text_height(kLabelFont);
    text(plot_.x + kPlotWidth / 2, bottom_ - text_height(kLabelFont) / 2, kLabelFont,
         Anchor::middle, title);
  }

  void paint_y_title() {
    text(kMargin + text_height(kLabelFont) / 2, plot_.y + kPlotHeight / 2, kLabelFont,
         Anchor::middle, y_title_, kInk, Turn::upwards);
  }

  void paint_caption() {
    if (boxes_ == 0) return;
    bottom_ += kAxisTitleGap + kLegendGap;
    for (const std::u32string& line : ruler_.wrap(
             clean_text(kBoxedCaption), out_.width - 2 * kMargin, kCaptionFont, kMaxCaptionLines)) {
      text(kMargin, bottom_ + kCaptionFont / 2, kCaptionFont, Anchor::start, line, kFaintInk);
      bottom_ += kCaptionFont * kLineHeight;
    }
  }

  const LineChart& chart_;
  const Foreign foreign_;
  const Ruler ruler_;
  const Scale x_, y_;
  std::vector<Tick> x_ticks_, y_ticks_;
  std::u32string y_title_;
  Box plot_{};
  double bottom_ = 0;  // of what is painted so far
  int64_t boxes_ = 0;  // characters that the font lacks
  Drawing out_;
};

}  // namespace

Drawing lay_out(const LineChart& chart, Foreign foreign) {
  check_chart(chart);
  return ChartLayout(chart, foreign).make();
}

}  // namespace rapt::viz

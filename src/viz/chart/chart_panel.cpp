#include "viz/chart/chart_panel.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "viz/chart/chart_values.h"
#include "viz/chart/spread.h"
#include "viz/contrast.h"
#include "viz/page_style.h"
#include "viz/text/label_text.h"

namespace rapt::viz {
namespace {

constexpr double kPlotHeight = 320;
constexpr double kCurveWidth = 1.5, kMarkerSize = 6.5, kLeaderWidth = 0.75;
// Right of the plot: the leader from the end of a curve, a piece of the curve, and its name.
constexpr double kLeaderLength = 14, kKeyLength = 20, kKeyGap = 6;
constexpr double kLongestName = 230;
constexpr double kNameDistance = 1.15 * kLabelFont;
constexpr double kTickRoom = 16;   // between the texts of two ticks of the x axis
constexpr double kBelowTicks = 6;  // so that the first text of one axis clears that of the other
constexpr int kMostXTicks = 10, kYTicks = 8;
constexpr Color kGridColor{0xe3, 0xe6, 0xe9};

}  // namespace

ChartPanel::ChartPanel(const LineChart& chart, Foreign foreign)
    : chart_(chart),
      ruler_(foreign),
      x_(x_scale_of(chart)),
      y_(y_scale_of(chart)),
      styles_(series_styles(chart.series)),
      x_ticks_(fitting_x_ticks()),
      y_ticks_(y_.ticks(kYTicks)),
      y_title_(ruler_.cut(clean_text(chart.y_axis.label), kPlotHeight, kLabelFont)) {
  size_t names = 0;
  for (size_t i = 0; i < chart.series.size() + chart.lines.size(); ++i) {
    const std::u32string name = name_of(i);
    names += !name.empty();
    widest_name_ = std::max(widest_name_, ruler_.width(name, kLabelFont));
  }
  plot_ = {0, 0, kPlotWidth,
           std::max(kPlotHeight, std::ceil(static_cast<double>(names) * kNameDistance))};
}

double ChartPanel::widest(const std::vector<Tick>& ticks) const {
  double widest = 0;
  for (const Tick& tick : ticks)
    widest = std::max(widest, ruler_.width(clean_text(tick.text), kLabelFont));
  return widest;
}

// As many ticks of the x axis as have room side by side.
std::vector<Tick> ChartPanel::fitting_x_ticks() const {
  for (int count = kMostXTicks;; --count) {
    std::vector<Tick> ticks = x_.ticks(count);
    double nearest = kPlotWidth;  // distance of two neighbours
    for (size_t i = 1; i < ticks.size(); ++i)
      nearest =
          std::min(nearest, kPlotWidth * (x_.part(ticks[i].value) - x_.part(ticks[i - 1].value)));
    if (count == 1 || nearest >= widest(ticks) + kTickRoom) return ticks;
  }
}

std::u32string ChartPanel::name_of(size_t index) const {
  const size_t series = chart_.series.size();
  const std::string& name =
      index < series ? chart_.series[index].name : chart_.lines[index - series].name;
  return ruler_.cut(clean_text(name), kLongestName, kLabelFont);
}

double ChartPanel::left() const {
  double left = widest(y_ticks_) + kTickLength + kTickGap;
  if (!y_title_.empty()) left += text_height(kLabelFont) + kAxisTitleGap;
  // The text of a tick at an end of the x axis stands half beyond it.
  return std::max(left, widest(x_ticks_) / 2);
}

double ChartPanel::right() const {
  const double names = widest_name_ > 0 ? kLeaderLength + kKeyLength + kKeyGap + widest_name_ : 0;
  return std::max(names, widest(x_ticks_) / 2);
}

void ChartPanel::paint(Drawing& drawing, double x) {
  out_ = &drawing;
  plot_.x = x;
  paint_title();
  // Half of the text of a tick at the top stands above the plot.
  plot_.y = std::ceil(out_->height + text_height(kLabelFont));
  paint_grid();
  paint_lines();
  for (size_t k = 0; k < chart_.series.size(); ++k) paint_curves(k);
  paint_labels();
  paint_x_axis();
  paint_y_title();
  paint_note();
}

void ChartPanel::text(double x, double y, Anchor anchor, const std::u32string& text, Turn turn) {
  if (!text.empty())
    out_->shapes.push_back(Text{x, y, kLabelFont, anchor, turn, Weight::normal, kInk, text});
}

void ChartPanel::paint_title() {
  const std::u32string title = clean_text(chart_.title);
  for (const std::u32string& line :
       ruler_.wrap(title, kPlotWidth, kTitleFont * kBold, kMaxTitleLines)) {
    out_->shapes.push_back(Text{plot_.x + kPlotWidth / 2, out_->height + kTitleFont / 2, kTitleFont,
                                Anchor::middle, Turn::none, Weight::bold, kInk, line});
    out_->height += kTitleFont * kLineHeight;
  }
}

Point ChartPanel::at(double x, double y) const {
  return {plot_.x + plot_.width * x_.part(x), plot_.y + plot_.height * (1 - y_.part(y))};
}

void ChartPanel::paint_grid() {
  const double right = plot_.x + plot_.width;
  for (const Tick& tick : y_ticks_) {
    const double y = plot_.y + plot_.height * (1 - y_.part(tick.value));
    out_->shapes.push_back(Line{plot_.x, y, right, y, kGridColor});
    text(plot_.x - kTickLength - kTickGap, y, Anchor::end, clean_text(tick.text));
  }
}

void ChartPanel::paint_lines() {
  for (const LineAcross& line : chart_.lines) {
    if (!ChartScale::shows(chart_.y_axis.scale, line.y)) continue;
    const double y = plot_.y + plot_.height * (1 - y_.part(line.y));
    out_->shapes.push_back(Line{plot_.x, y, plot_.x + plot_.width, y, kFaintInk});
  }
}

void ChartPanel::paint_curves(size_t k) {
  const Series& series = chart_.series[k];
  const SeriesStyle& style = styles_[k];
  const Curve none{{}, kCurveWidth, style.color, dashes_of(style.pattern)};
  std::vector<Curve> curves(1, none);
  std::vector<Point> points;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!shows_point(chart_, series, i)) {
      curves.push_back(none);
      continue;
    }
    points.push_back(at(series.x[i], series.y[i]));
    curves.back().points.push_back(points.back());
  }
  for (Curve& curve : curves)
    if (!curve.points.empty()) out_->shapes.push_back(std::move(curve));
  if (style.marker && !points.empty())
    out_->shapes.push_back(Markers{std::move(points), *style.marker, kMarkerSize, style.color});
}

// The names of what is drawn, each as near to its end as the others let it be.
std::vector<ChartPanel::Label> ChartPanel::labels() const {
  std::vector<Label> labels;
  const auto add = [&](size_t index, Point end) {
    if (std::u32string name = name_of(index); !name.empty())
      labels.push_back({std::move(name), end, index, end.y});
  };
  for (size_t k = 0; k < chart_.series.size(); ++k) {
    const Series& series = chart_.series[k];
    size_t last = series.x.size();
    while (last > 0 && !shows_point(chart_, series, last - 1)) --last;
    if (last > 0) add(k, at(series.x[last - 1], series.y[last - 1]));
  }
  for (size_t k = 0; k < chart_.lines.size(); ++k)
    if (const double y = chart_.lines[k].y; ChartScale::shows(chart_.y_axis.scale, y))
      add(chart_.series.size() + k,
          {plot_.x + plot_.width, plot_.y + plot_.height * (1 - y_.part(y))});
  std::vector<double> places;
  for (const Label& label : labels) places.push_back(label.end.y);
  const double half = kNameDistance / 2;
  places = spread(places, kNameDistance, plot_.y + half, plot_.y + plot_.height - half);
  for (size_t i = 0; i < labels.size(); ++i) labels[i].place = places[i];
  return labels;
}

void ChartPanel::paint_labels() {
  const double key = plot_.x + plot_.width + kLeaderLength;
  for (const Label& label : labels()) {
    const Color color = label.series < styles_.size() ? styles_[label.series].color : kFaintInk;
    out_->shapes.push_back(Curve{{label.end, {key, label.place}}, kLeaderWidth, color, {0.1, 3}});
    paint_key(label, key);
    text(key + kKeyLength + kKeyGap, label.place, Anchor::start, label.text);
  }
}

// A piece of the curve beside its name.
void ChartPanel::paint_key(const Label& label, double x) {
  const Point begin{x, label.place}, end{x + kKeyLength, label.place};
  if (label.series >= styles_.size()) {
    out_->shapes.push_back(Line{begin.x, begin.y, end.x, end.y, kFaintInk});
    return;
  }
  const SeriesStyle& style = styles_[label.series];
  out_->shapes.push_back(Curve{{begin, end}, kCurveWidth, style.color, dashes_of(style.pattern)});
  if (style.marker)
    out_->shapes.push_back(
        Markers{{{x + kKeyLength / 2, label.place}}, *style.marker, kMarkerSize, style.color});
}

void ChartPanel::paint_x_axis() {
  const double y = plot_.y + plot_.height;
  out_->shapes.push_back(Line{plot_.x, y, plot_.x + plot_.width, y, kAxisColor});
  const double below = y + kTickLength + kBelowTicks;
  for (const Tick& tick : x_ticks_) {
    const double x = plot_.x + plot_.width * x_.part(tick.value);
    out_->shapes.push_back(Line{x, y, x, y + kTickLength, kAxisColor});
    text(x, below + text_height(kLabelFont) / 2, Anchor::middle, clean_text(tick.text));
  }
  out_->height = below + text_height(kLabelFont);
  const std::u32string title = ruler_.cut(clean_text(chart_.x_axis.label), kPlotWidth, kLabelFont);
  if (title.empty()) return;
  out_->height += kAxisTitleGap + text_height(kLabelFont);
  text(plot_.x + plot_.width / 2, out_->height - text_height(kLabelFont) / 2, Anchor::middle,
       title);
}

void ChartPanel::paint_y_title() {
  text(kMargin + text_height(kLabelFont) / 2, plot_.y + plot_.height / 2, Anchor::middle, y_title_,
       Turn::upwards);
}

void ChartPanel::paint_note() {
  const std::u32string note = clean_text(chart_.note);
  if (note.empty()) return;
  out_->height += kAxisTitleGap + kLegendGap;
  for (const std::u32string& line :
       ruler_.wrap(note, out_->width - 2 * kMargin, kCaptionFont, kMaxCaptionLines)) {
    out_->shapes.push_back(Text{kMargin, out_->height + kCaptionFont / 2, kCaptionFont,
                                Anchor::start, Turn::none, Weight::normal, kFaintInk, line});
    out_->height += kCaptionFont * kLineHeight;
  }
}

}  // namespace rapt::viz

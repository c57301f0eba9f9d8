#include "viz/layout.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "viz/cells.h"
#include "viz/contrast.h"
#include "viz/numbers.h"
#include "viz/page_style.h"
#include "viz/text/label_text.h"
#include "viz/text/ruler.h"

namespace rapt::viz {
namespace {

constexpr double kSmallestFont = 8;
constexpr double kSmallestNumber = 9, kLargestNumber = 13;  // fonts of the values in cells
constexpr double kNumberPadding = 8;
constexpr double kLetterGap = 3;
constexpr double kDescent = 3;          // of level labels, whose letters may hang below the line
constexpr double kShortestTitle = 300;  // no title is wrapped to less than this
constexpr double kBarGap = 20, kBarWidth = 14, kShortestBar = 90, kBarTickDistance = 18;
constexpr int kMaxBarTicks = 8;
constexpr double kLegendSwatch = 12;

// Cells of small maps are squares between these sizes, chosen for a picture of the target size. The
// picture may grow up to the limit if that makes room for numbers in all cells.
constexpr double kSmallestCell = 10, kLargestCell = 64, kVectorTarget = 600, kNumbersLimit = 800;
// Cells of images are multiples of half a unit: one pixel of the PNG.
constexpr double kImageTarget = 720, kLargestImageCell = 24;
// Images have square cells up to this ratio of their sides; beyond it they would be too thin.
constexpr double kLargestAspect = 4;

// One axis: the labels that are shown, their places, and the room that they take across the axis.
struct Axis {
  struct Label {
    double center;  // from the axis' beginning
    std::u32string text;
  };
  std::vector<Label> labels;
  double font = kLabelFont;
  double depth = 0;  // extent of the labels away from the map
  Turn turn = Turn::none;
};

struct LegendItem {
  std::u32string text;
  std::optional<Color> color;  // absent: hatched as masked cells are
  bool lines = false;          // over the colour
};

class Layout {
 public:
  Layout(const Heatmap& map, Foreign foreign)
      : map_(map),
        foreign_(foreign),
        ruler_(foreign),
        cells_(pool(map, kMaxImageCells, kMaxImageCells)) {}

  Drawing make() {
    size_cells();
    rows_ = axis(map_.row_labels, map_.rows, map_.positions_per_row, map_box_.height, Turn::none);
    columns_ = axis(map_.column_labels, map_.columns, map_.positions_per_column, map_box_.width,
                    Turn::upwards);
    ticks_ = round_ticks(cells_.range.low, cells_.range.high,
                         std::min(kMaxBarTicks, static_cast<int>(bar_height() / kBarTickDistance)));
    place();
    paint();
    return std::move(out_);
  }

 private:
  bool vector_cells() const { return std::max(map_.rows, map_.columns) <= kMaxVectorCells; }

  std::u32string number(float value) const {
    const std::string text = format_value(value, map_.decimals);
    return std::u32string(text.begin(), text.end());
  }

  void size_cells() {
    const double rows = static_cast<double>(cells_.rows);
    const double columns = static_cast<double>(cells_.columns);
    if (vector_cells()) {
      const double side = std::max(rows, columns);
      double cell = std::clamp(std::floor(kVectorTarget / side), kSmallestCell, kLargestCell);
      double widest = 0;  // number, at font size 1
      for (size_t i = 0; i < cells_.values.size(); ++i)
        if (cells_.kinds[i] != CellKind::masked)
          widest = std::max(widest, text_width(number(cells_.values[i]), foreign_));
      const double needed = std::ceil(widest * kSmallestNumber) + kNumberPadding;
      annotate_ = widest > 0 && (map_.annotate == Annotate::always ||
                                 (map_.annotate == Annotate::automatic &&
                                  side * std::max(cell, needed) <= kNumbersLimit));
      if (annotate_) {
        cell = std::max(cell, needed);
        number_font_ = std::clamp(std::floor((cell - kNumberPadding) / widest * 2) / 2,
                                  kSmallestNumber, kLargestNumber);
      }
      cell_width_ = cell_height_ = cell;
    } else {
      const auto image_cell = [](double count) {
        return std::clamp(std::round(2 * kImageTarget / count) / 2, 0.5, kLargestImageCell);
      };
      cell_width_ = image_cell(columns);
      cell_height_ = image_cell(rows);
      const double ratio = std::max(rows, columns) / std::min(rows, columns);
      if (ratio <= kLargestAspect) cell_width_ = cell_height_ = std::min(cell_width_, cell_height_);
    }
    map_box_ = {0, 0, cell_width_ * columns, cell_height_ * rows};
  }

  // Single letters need less of a gap than words to be told apart.
  double widest_with_gap(const std::vector<std::string>& texts) const {
    double widest = 0;
    bool letters = true;
    for (const std::string& text : texts) {
      const std::u32string label = clean_text(text);
      widest = std::max(widest, ruler_.width(label, kLabelFont));
      letters = letters && label.size() <= 1;
    }
    return widest + (letters ? kLetterGap : kNumberPadding);
  }

  // Labels of `count` cells of `positions` positions each along `length`. With `when_wide`, texts
  // stand across the axis if they are too wide for their cells.
  Axis axis(const std::vector<std::string>& texts, int64_t count, double positions, double length,
            Turn when_wide) const {
    Axis axis;
    const double cell = length / static_cast<double>(count);
    const auto add = [&](double i, std::u32string text) {
      axis.labels.push_back({(i + 0.5) * cell, std::move(text)});
    };
    const bool beside = when_wide == Turn::none;  // a vertical axis: lines of text of any width
    if (texts.empty()) {
      const int64_t end = std::llround(static_cast<double>(count) * positions);
      const std::string last = std::to_string(std::max<int64_t>(end - 1, 0));
      // The same room on both axes, so that square maps have the same ticks on both.
      const double room =
          std::max(kLineHeight * axis.font,
                   ruler_.width(std::u32string(last.begin(), last.end()), axis.font) + 6);
      const int64_t step = round_step(room / cell * positions);
      for (int64_t i = 0; i == 0 || i < end; i += step) {
        const std::string text = std::to_string(i);
        // The middle of a single position; in a cell of many positions, near enough to its
        // beginning.
        const double at = (static_cast<double>(i) + 0.5) / positions - 0.5;
        add(positions < 1 ? 0 : at, std::u32string(text.begin(), text.end()));
      }
    } else {
      axis.font = cell < kSmallestFont
                      ? kSmallestFont + 1
                      : std::clamp(std::floor(cell * 0.9), kSmallestFont, kLabelFont);
      if (!beside) {  // level if all of them fit into their cells
        const double widest = widest_with_gap(texts);
        if (widest <= cell) axis.font = kLabelFont;
        axis.turn = widest <= cell ? Turn::none : Turn::upwards;
      }
      const bool level = !beside && axis.turn == Turn::none;
      const int64_t step = level ? 1 : round_step(1.1 * axis.font / cell);
      for (int64_t i = 0; i < count; i += step)
        add(static_cast<double>(i),
            ruler_.cut(clean_text(texts[static_cast<size_t>(i)]), kLongestLabel, axis.font));
    }
    for (const Axis::Label& label : axis.labels)
      axis.depth = std::max(axis.depth, ruler_.width(label.text, axis.font));
    if (!beside && axis.turn == Turn::none) axis.depth = text_height(axis.font) + kDescent;
    return axis;
  }

  bool has_bar() const { return map_.legend == Legend::bar; }
  double bar_height() const { return has_bar() ? std::max(map_box_.height, kShortestBar) : 0; }

  std::u32string caption() const {
    std::string text;
    if (cells_.rows_per_cell * cells_.columns_per_cell > 1)
      text = std::to_string(map_.rows) + " \u00d7 " + std::to_string(map_.columns) +
             " cells; each pixel is the maximum of " + std::to_string(cells_.rows_per_cell) +
             " \u00d7 " + std::to_string(cells_.columns_per_cell) + ".";
    if (cells_.any_clipped)
      text += std::string(text.empty() ? "" : " ") + "Values beyond the bar take its end colours.";
    if (any_boxed()) text += std::string(text.empty() ? "" : " ") + kBoxedCaption;
    return clean_text(text);
  }

  // Whether any text around the map that place() has set so far contains a box for a missing glyph.
  bool any_boxed() const {
    if (foreign_ != Foreign::as_box) return false;
    const auto boxed = [](const std::u32string& text) { return count_boxes(text) > 0; };
    const auto labels_boxed = [&](const Axis& axis) {
      return std::any_of(axis.labels.begin(), axis.labels.end(),
                         [&](const Axis::Label& label) { return boxed(label.text); });
    };
    return std::any_of(title_.begin(), title_.end(), boxed) || boxed(x_title_) || boxed(y_title_) ||
           boxed(hatched_label_) || labels_boxed(rows_) || labels_boxed(columns_);
  }

  // Fills the legend and returns the width that it needs.
  double collect_legend() {
    if (!has_bar()) legend_.push_back({U"allowed", map_.colors.at(kAllowedPosition)});
    if (cells_.any_masked) legend_.push_back({U"masked", std::nullopt});
    if (cells_.any_hatched) {
      hatched_label_ = ruler_.cut(clean_text(map_.hatched_label), kLongestLabel, kCaptionFont);
      legend_.push_back({hatched_label_, map_.colors.at(0), true});
    }
    if (cells_.any_non_finite) legend_.push_back({U"not finite", kNonFiniteColor});
    const double text = ruler_.width(hatched_label_, kCaptionFont);
    return std::max(kShortestLegendLine, kLegendSwatch + kLegendGap + text);
  }

  // Places the map on the page; everything else is placed relative to it.
  void place() {
    out_.title = clean_text(map_.title);
    title_ = ruler_.wrap(out_.title, std::max(map_box_.width, kShortestTitle), kTitleFont * kBold,
                         kMaxTitleLines);
    x_title_ =
        ruler_.cut(clean_text(map_.x_label), std::max(map_box_.width, kLongestLabel), kLabelFont);
    y_title_ =
        ruler_.cut(clean_text(map_.y_label), std::max(map_box_.height, kLongestLabel), kLabelFont);

    double left = kMargin + kTickLength + kTickGap + rows_.depth;
    if (!y_title_.empty()) left += text_height(kLabelFont) + kAxisTitleGap;
    double bar_label = 0;
    for (const Tick& tick : ticks_)
      bar_label = std::max(bar_label, ruler_.width(clean_text(tick.text), kLabelFont));
    double right = kMargin;
    if (has_bar()) right += kBarGap + kBarWidth + kTickLength + kTickGap + bar_label;
    // Texts that are centred on the map may be wider than the map.
    double centred = ruler_.width(x_title_, kLabelFont);
    for (const std::u32string& line : title_)
      centred = std::max(centred, ruler_.width(line, kTitleFont) * kBold);
    if (columns_.turn == Turn::none && !columns_.labels.empty())
      centred = std::max(centred, ruler_.width(columns_.labels.back().text, columns_.font) +
                                      2 * columns_.labels.back().center - map_box_.width);
    const double overhang = (centred - map_box_.width) / 2 + kMargin;
    left = std::ceil(std::max(left, overhang));
    right = std::max(right, overhang);
    right = std::max(right, collect_legend() - map_box_.width + kMargin);

    double top = kMargin;
    if (!title_.empty())
      top += static_cast<double>(title_.size()) * kTitleFont * kLineHeight -
             (kLineHeight - 1) * kTitleFont + kTitleGap;
    // A vertical title longer than the map needs room above and below.
    const double y_overhang = (ruler_.width(y_title_, kLabelFont) - map_box_.height) / 2;
    map_box_.x = left;
    map_box_.y = std::ceil(top + std::max(0.0, y_overhang));

    double bottom = map_box_.y + map_box_.height + kTickLength + kTickGap + columns_.depth;
    if (!x_title_.empty()) {
      x_title_y_ = bottom + kAxisTitleGap + text_height(kLabelFont) / 2;
      bottom += kAxisTitleGap + text_height(kLabelFont);
    }
    bottom = std::max(bottom, map_box_.y + map_box_.height + std::max(0.0, y_overhang));
    bottom = std::max(bottom, map_box_.y + bar_height() + text_height(kLabelFont) / 2);
    out_.width = std::ceil(left + map_box_.width + right);

    legend_y_ = bottom + kAxisTitleGap + kLegendGap;
    if (!legend_.empty())
      bottom = legend_y_ + static_cast<double>(legend_.size()) * (kLegendSwatch + kLegendGap) -
               kLegendGap;
    caption_ = ruler_.wrap(caption(), out_.width - 2 * kMargin, kCaptionFont, kMaxCaptionLines);
    caption_y_ = bottom + kAxisTitleGap + kLegendGap;
    if (!caption_.empty())
      bottom = caption_y_ + static_cast<double>(caption_.size()) * kCaptionFont * kLineHeight;
    out_.height = std::ceil(bottom + kMargin);
  }

  void text(double x, double y, double font, Anchor anchor, std::u32string text, Color color = kInk,
            Turn turn = Turn::none, Weight weight = Weight::normal) {
    if (!text.empty())
      out_.shapes.push_back(Text{x, y, font, anchor, turn, weight, color, std::move(text)});
  }

  void paint() {
    paint_cells();
    paint_axes();
    paint_titles();
    if (has_bar()) paint_bar();
    paint_legend();
  }

  void paint_cells() {
    if (cells_.any_masked) out_.shapes.push_back(Hatch{map_box_});
    if (vector_cells())
      paint_rectangles();
    else
      paint_image();
    out_.shapes.push_back(Frame{map_box_, kAxisColor});
  }

  void paint_rectangles() {
    std::vector<Text> numbers;
    for (int64_t i = 0; i < cells_.rows; ++i) {
      for (int64_t j = 0; j < cells_.columns; ++j) {
        const CellKind kind = cells_.kind(i, j);
        if (kind == CellKind::masked) continue;
        const float value = cells_.value(i, j);
        const Color color =
            kind == CellKind::non_finite ? kNonFiniteColor : map_.colors.at(cells_.position(value));
        const Box box{map_box_.x + static_cast<double>(j) * cell_width_,
                      map_box_.y + static_cast<double>(i) * cell_height_, cell_width_,
                      cell_height_};
        out_.shapes.push_back(Fill{box, color});
        if (annotate_)
          numbers.push_back({box.x + box.width / 2, box.y + box.height / 2, number_font_,
                             Anchor::middle, Turn::none, Weight::normal, text_color(color),
                             number(value)});
      }
    }
    paint_lines_over_cells();
    out_.shapes.insert(out_.shapes.end(), numbers.begin(), numbers.end());
  }

  void paint_image() {
    // A palette keeps the file small; 253 steps are finer than the eye and than 8-bit colours.
    constexpr int kSteps = 253;
    constexpr uint8_t kNonFinite = kSteps, kTransparent = kSteps + 1;
    Image image{map_box_, cells_.rows, cells_.columns, {}, {}};
    for (int i = 0; i < kSteps; ++i) image.palette.push_back(map_.colors.at(i / (kSteps - 1.0)));
    image.palette.push_back(kNonFiniteColor);
    image.pixels.reserve(cells_.values.size());
    for (size_t i = 0; i < cells_.values.size(); ++i) {
      const double position = std::clamp(cells_.position(cells_.values[i]), 0.0, 1.0);
      image.pixels.push_back(cells_.kinds[i] == CellKind::masked ? kTransparent
                             : cells_.kinds[i] == CellKind::non_finite
                                 ? kNonFinite
                                 : static_cast<uint8_t>(std::lround(position * (kSteps - 1))));
    }
    out_.shapes.push_back(std::move(image));
    paint_lines_over_cells();
  }

  void paint_lines_over_cells() {
    if (cells_.any_hatched)
      out_.shapes.push_back(HatchedCells{map_box_, cells_.rows, cells_.columns, cells_.hatched});
  }

  void paint_axes() {
    const double bottom = map_box_.y + map_box_.height;
    for (const Axis::Label& label : rows_.labels) {
      const double y = map_box_.y + label.center;
      out_.shapes.push_back(Line{map_box_.x - kTickLength, y, map_box_.x, y, kAxisColor});
      text(map_box_.x - kTickLength - kTickGap, y, rows_.font, Anchor::end, label.text);
    }
    for (const Axis::Label& label : columns_.labels) {
      const double x = map_box_.x + label.center;
      out_.shapes.push_back(Line{x, bottom, x, bottom + kTickLength, kAxisColor});
      const double below = bottom + kTickLength + kTickGap;
      if (columns_.turn == Turn::none)
        text(x, below + text_height(columns_.font) / 2, columns_.font, Anchor::middle, label.text);
      else
        text(x, below, columns_.font, Anchor::end, label.text, kInk, Turn::upwards);
    }
  }

  void paint_titles() {
    const double center = map_box_.x + map_box_.width / 2;
    double y = kMargin + kTitleFont / 2;
    for (const std::u32string& line : title_) {
      text(center, y, kTitleFont, Anchor::middle, line, kInk, Turn::none, Weight::bold);
      y += kTitleFont * kLineHeight;
    }
    text(center, x_title_y_, kLabelFont, Anchor::middle, x_title_);
    const double gap = kTickLength + kTickGap + rows_.depth + kAxisTitleGap;
    text(map_box_.x - gap - text_height(kLabelFont) / 2, map_box_.y + map_box_.height / 2,
         kLabelFont, Anchor::middle, y_title_, kInk, Turn::upwards);
  }

  void paint_bar() {
    const Box bar{map_box_.x + map_box_.width + kBarGap, map_box_.y, kBarWidth, bar_height()};
    out_.shapes.push_back(ColorBar{bar, map_.colors});
    out_.shapes.push_back(Frame{bar, kAxisColor});
    const double right = bar.x + bar.width;
    for (const Tick& tick : ticks_) {
      const double part = (tick.value - cells_.range.low) / (cells_.range.high - cells_.range.low);
      const double y = bar.y + bar.height * (1 - std::clamp(part, 0.0, 1.0));
      out_.shapes.push_back(Line{right, y, right + kTickLength, y, kAxisColor});
      text(right + kTickLength + kTickGap, y, kLabelFont, Anchor::start, clean_text(tick.text));
    }
  }

  void paint_legend() {
    double y = legend_y_;
    for (const LegendItem& item : legend_) {
      const Box swatch{map_box_.x, y, kLegendSwatch, kLegendSwatch};
      if (item.color)
        out_.shapes.push_back(Fill{swatch, *item.color});
      else
        out_.shapes.push_back(Hatch{swatch});
      if (item.lines) out_.shapes.push_back(HatchedCells{swatch, 1, 1, {1}});
      out_.shapes.push_back(Frame{swatch, kAxisColor});
      text(swatch.x + kLegendSwatch + kLegendGap, y + kLegendSwatch / 2, kCaptionFont,
           Anchor::start, item.text, kFaintInk);
      y += kLegendSwatch + kLegendGap;
    }
    y = caption_y_ + kCaptionFont / 2;
    for (const std::u32string& line : caption_) {
      text(kMargin, y, kCaptionFont, Anchor::start, line, kFaintInk);
      y += kCaptionFont * kLineHeight;
    }
  }

  static constexpr double kShortestLegendLine = 80;

  const Heatmap& map_;
  const Foreign foreign_;
  const Ruler ruler_;
  const Cells cells_;
  Drawing out_;

  double cell_width_ = 0, cell_height_ = 0;
  bool annotate_ = false;
  double number_font_ = 0;
  Box map_box_{};
  Axis rows_, columns_;
  std::vector<Tick> ticks_;
  std::vector<std::u32string> title_, caption_;
  std::vector<LegendItem> legend_;
  std::u32string x_title_, y_title_, hatched_label_;
  double x_title_y_ = 0, legend_y_ = 0, caption_y_ = 0;
};

}  // namespace

Drawing lay_out(const Heatmap& map, Foreign foreign) {
  check(map);
  return Layout(map, foreign).make();
}

}  // namespace rapt::viz

// Layouts of maps of many sizes and of charts: everything is on the page, and no two texts overlap.
#include "viz/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "viz/chart/chart_layout.h"
#include "viz/examples.h"
#include "viz/text/label_text.h"

namespace rapt::viz {
namespace {

Box extent(const Text& text, Foreign foreign) {
  // From half a descender below the baseline to the same distance above the capitals.
  const double width = text_width(text.text, foreign) * text.size;
  const double height = 0.95 * text.size;
  const double start = text.anchor == Anchor::start ? 0
                       : text.anchor == Anchor::end ? -width
                                                    : -width / 2;
  if (text.turn == Turn::upwards)
    return {text.x - height / 2, text.y - start - width, height, width};
  return {text.x + start, text.y - height / 2, width, height};
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

Heatmap labelled(int64_t rows, int64_t columns, const std::string& label) {
  Heatmap map = test::weights(rows, columns, test::Mask::causal);
  map.title = "A title of some length for a map of any size, which is wrapped or cut " + label;
  if (label.empty()) return map;
  map.x_label = map.y_label = label + label;
  for (int64_t i = 0; i < rows; ++i) map.row_labels.push_back(label + std::to_string(i));
  for (int64_t i = 0; i < columns; ++i) map.column_labels.push_back(label + std::to_string(i));
  return map;
}

Drawing lay_out(const LineChart& chart, Foreign foreign) {
  return lay_out(std::vector<LineChart>{chart}, foreign);
}

template <class Picture>
void expect_lawful(const Picture& picture, Foreign foreign) {
  const Drawing drawing = lay_out(picture, foreign);
  ASSERT_GT(drawing.width, 0);
  std::vector<Box> texts;
  const auto expect_inside = [&](const Box& b) {
    EXPECT_GE(b.x, 0);
    EXPECT_GE(b.y, 0);
    EXPECT_LE(b.x + b.width, drawing.width);
    EXPECT_LE(b.y + b.height, drawing.height);
  };
  for (const Shape& shape : drawing.shapes) {
    if (const Text* text = std::get_if<Text>(&shape)) {
      texts.push_back(extent(*text, foreign));
      SCOPED_TRACE(encode_utf8(text->text));
      expect_inside(texts.back());
      for (size_t i = 0; i + 1 < texts.size(); ++i)
        EXPECT_FALSE(overlap(texts[i], texts.back())) << "covers text " << i;
    } else if (const Frame* frame = std::get_if<Frame>(&shape)) {
      expect_inside(frame->box);
    } else if (const Fill* fill = std::get_if<Fill>(&shape)) {
      expect_inside(fill->box);
    } else if (const Curve* curve = std::get_if<Curve>(&shape)) {
      for (const Point& p : curve->points)
        expect_inside({p.x - curve->width / 2, p.y - curve->width / 2, curve->width, curve->width});
    } else if (const Markers* markers = std::get_if<Markers>(&shape)) {
      const double size = 1.5 * markers->size;
      for (const Point& p : markers->centers)
        expect_inside({p.x - size / 2, p.y - size / 2, size, size});
    }
  }
  EXPECT_FALSE(texts.empty());
}

TEST(Layout, NothingLeavesThePageAndNoTextCoversAnother) {
  constexpr int64_t kSizes[] = {1, 2, 3, 12, 20, 40, 64, 65, 200, 1100};
  for (int64_t rows : kSizes) {
    for (int64_t columns : kSizes) {
      for (const char* label : {"", "word", "internationalization of labels ",
                                "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"}) {
        SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(columns) + " '" + label + "'");
        expect_lawful(labelled(rows, columns, label), Foreign::as_box);
        Heatmap pooled = labelled(rows, columns, label);
        pooled.positions_per_row = 3.7;
        pooled.positions_per_column = 1000;
        pooled.legend = Legend::allowed;
        expect_lawful(pooled, Foreign::by_viewer);
        if (HasFailure()) return;  // one failing case is enough
      }
    }
  }
}

TEST(Layout, HostileLabelsStayInTheirPlace) {
  expect_lawful(test::hostile_labels(), Foreign::as_box);
  expect_lawful(test::hostile_labels(), Foreign::by_viewer);
}

TEST(Layout, ChartsOfAnyRangeAndNamesStayOnThePage) {
  const std::pair<double, double> ranges[] = {
      {0, 1},  {0, 0},       {-5, 7e8},      {99999, 99999.001},  {1e300, 1.1e300},
      {-1, 0}, {1e-9, 2e-9}, {-2e-5, 3e-12}, {123456, 123456.12}, {7, 7.0000000000001}};
  for (const auto& [low, high] : ranges)
    for (const char* name : {"", "held out", "internationalization of labels ",
                             "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"}) {
      SCOPED_TRACE(std::to_string(low) + " to " + std::to_string(high) + " '" + name + "'");
      std::string long_name;
      for (int i = 0; i < 12; ++i) long_name += name;
      LineChart chart{.lines = {{name, (low + high) / 2}},
                      .title = long_name,
                      .x_axis = {.label = long_name},
                      .y_axis = {.label = long_name},
                      .note = long_name};
      for (size_t k = 0; k < kMaxSeries; ++k)
        chart.series.push_back(
            {.name = name, .x = {low, high}, .y = {high, low}, .dots = k % 2 == 0});
      expect_lawful(chart, Foreign::as_box);
      expect_lawful(chart, Foreign::by_viewer);
      if (HasFailure()) return;
    }
}

// A chart of any size: scales, units, ranges, numbers of series, points, lines and names.
LineChart random_chart(std::mt19937& random) {
  const auto below = [&](unsigned count) { return random() % count; };
  const auto part = [&] { return static_cast<double>(random()) * 0x1p-32; };
  const auto axis = [&] {
    return ChartAxis{.label = below(2) ? "An axis" : "",
                     .scale = static_cast<AxisScale>(below(3)),
                     .unit = static_cast<AxisUnit>(below(3))};
  };
  LineChart chart{.x_axis = axis(), .y_axis = axis()};
  const auto values = [&](const ChartAxis& of) {
    const double low = std::pow(10.0, 14 * part() - 7), decades = 12 * part() * part();
    const bool logarithmic = of.scale != AxisScale::linear;
    return [&, low, decades, logarithmic] {
      return logarithmic ? low * std::pow(10.0, decades * part()) : low * (part() - 0.3);
    };
  };
  const auto x = values(chart.x_axis), y = values(chart.y_axis);
  const auto name = [&] { return std::string(below(30), 'm') + (below(3) ? "word" : ""); };
  const size_t count = 1 + below(kMaxSeries);
  for (size_t k = 0; k < count; ++k) {
    Series series{.name = name(), .dots = below(2) == 0, .estimate = below(4) == 0};
    for (size_t i = 1 + below(6); i > 0; --i) {
      series.x.push_back(x());
      series.y.push_back(y());
    }
    chart.series.push_back(std::move(series));
  }
  for (size_t k = below(4); k > 0; --k) chart.lines.push_back({name(), y()});
  return chart;
}

TEST(Layout, NoTextsOfRandomChartsOverlap) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE("chart " + std::to_string(i));
    const LineChart chart = random_chart(random);
    expect_lawful(chart, i % 2 == 0 ? Foreign::as_box : Foreign::by_viewer);
    if (HasFailure()) return;
  }
}

int64_t turned_texts(const Heatmap& map) {
  const Drawing drawing = lay_out(map, Foreign::as_box);
  return std::count_if(drawing.shapes.begin(), drawing.shapes.end(), [](const Shape& shape) {
    const Text* text = std::get_if<Text>(&shape);
    return text && text->turn == Turn::upwards;
  });
}

TEST(Layout, SingleLettersStandLevel) {
  Heatmap map = labelled(4, 40, "");
  map.column_labels.assign(40, "w");
  EXPECT_EQ(turned_texts(map), 1) << "the title of the axis";
  expect_lawful(map, Foreign::as_box);
  map.column_labels[7] = "two";
  EXPECT_EQ(turned_texts(map), 41);
}

int64_t numbers_of(const Heatmap& map) {
  const Drawing drawing = lay_out(map, Foreign::as_box);
  return std::count_if(drawing.shapes.begin(), drawing.shapes.end(), [](const Shape& shape) {
    const Text* text = std::get_if<Text>(&shape);
    return text && text->text.starts_with(U"0.") && text->text.size() == 4 &&
           text->anchor == Anchor::middle;
  });
}

TEST(Layout, NumbersAreWrittenWhileTheyFit) {
  Heatmap small = test::weights(12, 12, test::Mask::none);
  EXPECT_EQ(numbers_of(small), 144);
  small.annotate = Annotate::never;
  EXPECT_EQ(numbers_of(small), 0);
  Heatmap large = test::weights(40, 40, test::Mask::none);
  EXPECT_EQ(numbers_of(large), 0);
  large.annotate = Annotate::always;
  EXPECT_EQ(numbers_of(large), 1600);
}

}  // namespace
}  // namespace rapt::viz

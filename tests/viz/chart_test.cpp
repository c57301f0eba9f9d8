// Line charts: curves pass their points on the scales that ticks show, as SVG and as PNG.
#include "rapt/viz/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <set>
#include <string>

#include "rapt/error.h"
#include "viz/drawing.h"
#include "viz/examples.h"
#include "viz/png_reader.h"
#include "viz/raster.h"
#include "viz/svg_reader.h"

namespace rapt::viz {
namespace {

using test::Element;
using test::SvgReader;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The numbers of a path, which has only absolute coordinates.
std::vector<Point> points_of(const Element& path) {
  std::vector<Point> points;
  std::string d = path.attributes.at("d");
  for (char& c : d)
    if (c == 'M' || c == 'L') c = ' ';
  const char* at = d.c_str();
  for (char* end = nullptr;; at = end) {
    const double x = std::strtod(at, &end);
    if (end == at) return points;
    points.push_back({x, std::strtod(end, &end)});
  }
}

std::vector<Element> curves_of(const SvgReader& svg) {
  std::vector<Element> found;
  for (const Element& path : svg.all("path"))
    if (path.attributes.contains("stroke-linecap") && path.number("stroke-width") == 1.5)
      found.push_back(path);
  return found;
}

// How often a path moves the pen: once per marker that is one line.
std::ptrdiff_t moves_of(const Element& path) {
  return std::ranges::count(path.attributes.at("d"), 'M');
}

Element text_of(const SvgReader& svg, const std::string& words) {
  for (const Element& e : svg.all("text"))
    if (e.text == words) return e;
  ADD_FAILURE() << "no text " << words;
  return {};
}

// The line through the middle of the digits of a label of 12 units.
double middle_of(const Element& label) { return label.number("y") - kCapHeight / 2 * 12; }

LineChart one_curve(std::vector<double> x, std::vector<double> y) {
  return {.series = {{.x = std::move(x), .y = std::move(y)}}};
}

TEST(LineChart, CurvesPassTheirPointsOnTheScalesOfTheTicks) {
  const SvgReader svg(to_svg(one_curve({0, 4, 10}, {0, 0.4, 1})));
  const std::vector<Element> curves = curves_of(svg);
  ASSERT_EQ(curves.size(), 1u);
  const std::vector<Point> points = points_of(curves[0]);
  ASSERT_EQ(points.size(), 3u);
  // Coordinates have two decimals.
  EXPECT_NEAR(points[1].x, text_of(svg, "4").number("x"), 0.011);
  EXPECT_NEAR(points[2].x, text_of(svg, "10").number("x"), 0.011);
  EXPECT_NEAR(points[1].y, middle_of(text_of(svg, "0.4")), 0.011);
  EXPECT_NEAR(points[2].y, middle_of(text_of(svg, "1.0")), 0.011);
}

TEST(LineChart, ShowsItsWords) {
  const SvgReader svg(to_svg(test::losses()));
  EXPECT_EQ(svg.all("title").at(0).text, "Loss");
  for (const char* words : {"training", "held out", "Updates", "Loss in nats per token"})
    text_of(svg, words);
  std::ptrdiff_t dots = 0;
  for (const Element& path : svg.all("path"))
    if (path.attributes.at("d").ends_with("h0")) dots += moves_of(path);
  EXPECT_EQ(dots, 1 + std::ssize(test::losses().series[1].x))
      << "one per evaluation and one beside the name";
  std::set<std::string> colors;
  for (const Element& curve : curves_of(svg)) colors.insert(curve.attributes.at("stroke"));
  EXPECT_EQ(colors.size(), 2u);
}

TEST(LineChart, PointsThatAreNotFiniteLeaveGaps) {
  const SvgReader svg(
      to_svg(one_curve({0, 1, 2, 3, 4, 5, kInfinity}, {1, kNan, 2, 3, kInfinity, kNan, 4})));
  const std::vector<Element> curves = curves_of(svg);
  ASSERT_EQ(curves.size(), 2u);
  const std::vector<Point> dot = points_of(curves[0]);
  ASSERT_EQ(dot.size(), 2u) << "a line without length";
  EXPECT_EQ(dot[0].x, dot[1].x);
  EXPECT_EQ(dot[0].y, dot[1].y);
  EXPECT_EQ(points_of(curves[1]).size(), 2u);
}

TEST(LineChart, DrawsOneValueAndExtremeOnes) {
  for (const double value : {0.0, -3.0, 1e-320, 1e300, 4.9e-324})
    for (const size_t count : {1u, 3u}) {
      const std::vector<double> values(count, value);
      const SvgReader svg(to_svg(one_curve(values, values)));
      for (const Point& p : points_of(curves_of(svg).at(0))) {
        EXPECT_TRUE(p.x > 0 && p.x < svg.elements()[0].number("width")) << value;
        EXPECT_TRUE(p.y > 0 && p.y < svg.elements()[0].number("height")) << value;
      }
    }
}

TEST(LineChart, AxesOfPositiveValuesShowNoNegativeOnes) {
  const SvgReader svg(to_svg(one_curve({0, 1}, {0, 1})));
  for (const Element& e : svg.all("text")) EXPECT_FALSE(e.text.starts_with('-')) << e.text;
}

TEST(LineChart, TheXAxisBeginsAtAZeroThatIsNear) {
  const SvgReader svg(to_svg(one_curve({5, 100}, {7, 8})));
  EXPECT_NEAR(points_of(curves_of(svg).at(0))[0].x - text_of(svg, "0").number("x"), 560 * 0.05,
              0.02);
  const SvgReader far(to_svg(one_curve({20, 100}, {7, 8})));
  EXPECT_NEAR(points_of(curves_of(far).at(0))[0].x, text_of(far, "20").number("x"), 0.02);
}

TEST(LineChart, NamesCannotBecomeMarkup) {
  LineChart chart = test::losses();
  chart.title = "</title><script>alert('x')</script>";
  chart.series[0].name = "<b>&\x1b[31m" + std::string(1000, 'W');
  const SvgReader svg(to_svg(chart));
  const std::set<std::string> known = {"svg", "title", "rect", "g", "path", "text"};
  for (const Element& e : svg.elements()) EXPECT_TRUE(known.contains(e.name)) << e.name;
}

TEST(LineChart, PngHasTheCurveWhereTheSvgHasIt) {
  const LineChart chart = one_curve({0, 1}, {2, 2});
  const SvgReader svg(to_svg(chart));
  const test::PngPixels png(to_png(chart));
  EXPECT_EQ(png.width, std::lround(2 * svg.elements()[0].number("width")));
  EXPECT_EQ(png.height, std::lround(2 * svg.elements()[0].number("height")));
  const std::vector<Point> points = points_of(curves_of(svg).at(0));
  const int64_t x = std::lround(points[0].x + points[1].x), y = std::lround(2 * points[0].y);
  EXPECT_EQ(png.at(x, y), (Color{0x00, 0x72, 0xb2})) << "in the middle of the curve";
  EXPECT_EQ(png.at(x, y + 4), kWhite);
  EXPECT_EQ(png.at(x, y - 4), kWhite);
}

TEST(LineChart, LogarithmicAxesShowPowersAtEqualDistances) {
  LineChart chart = one_curve({128, 1024, 8192}, {1e-4, 1e-2, 1});
  chart.x_axis.scale = AxisScale::log2;
  chart.y_axis = {.scale = AxisScale::log10, .unit = AxisUnit::seconds};
  const SvgReader svg(to_svg(chart));
  const std::vector<Point> points = points_of(curves_of(svg).at(0));
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[1].x - points[0].x, points[2].x - points[1].x, 0.02);
  EXPECT_NEAR(points[1].y - points[0].y, points[2].y - points[1].y, 0.02);
  EXPECT_NEAR(points[1].x, text_of(svg, "1024").number("x"), 0.011);
  EXPECT_NEAR(points[1].y, middle_of(text_of(svg, "10 ms")), 0.011);
  chart.series[0].y[1] = -1;
  EXPECT_EQ(curves_of(SvgReader(to_svg(chart))).size(), 2u) << "a gap";
}

TEST(LineChart, LinesAcrossSpanThePlotAndTheAxisReachesThem) {
  LineChart chart = one_curve({0, 10}, {1, 2});
  chart.lines = {{.name = "mean of the values", .y = 4}};
  const SvgReader svg(to_svg(chart));
  const Element name = text_of(svg, "mean of the values");
  EXPECT_NEAR(middle_of(name), middle_of(text_of(svg, "4.0")), 0.02);
  size_t across = 0;
  for (const Element& path : svg.all("path"))
    if (path.attributes.contains("stroke") && path.attributes.at("stroke") == "#495057" &&
        points_of(path).size() == 2 && !path.attributes.contains("stroke-dasharray")) {
      const std::vector<Point> ends = points_of(path);
      EXPECT_NEAR(ends[0].y, middle_of(name), 0.02);
      across += std::fabs(ends[1].x - ends[0].x - 560) < 0.02;
    }
  EXPECT_EQ(across, 1u);
}

// Seven markers and seven patterns of dashes for six colours.
TEST(LineChart, NoTwoSeriesLookAlike) {
  for (const bool dots : {true, false}) {
    LineChart chart;
    for (size_t k = 0; k < kMaxSeries; ++k)
      chart.series.push_back(
          {.name = "n", .x = {0, 1}, .y = {0, static_cast<double>(k)}, .dots = dots});
    std::set<std::pair<std::string, std::string>> looks;
    const SvgReader svg(to_svg(chart));
    for (const Element& path : svg.all("path")) {
      const auto value = [&](const char* name) {
        const auto found = path.attributes.find(name);
        return found == path.attributes.end() ? std::string() : found->second;
      };
      const std::string& d = path.attributes.at("d");
      if (dots) {  // the steps of the figure of a name, after its place
        const size_t figure = std::min(d.find('l'), d.find('h'));
        if (figure != std::string::npos && moves_of(path) <= 2)
          looks.insert({value("fill") + value("stroke"),
                        d.substr(figure, std::min<size_t>(12, d.find('M', figure) - figure))});
      } else if (path.attributes.contains("stroke-linecap") && path.number("stroke-width") == 1.5) {
        looks.insert({value("stroke"), value("stroke-dasharray")});
      }
    }
    EXPECT_EQ(looks.size(), kMaxSeries) << (dots ? "markers" : "dashes");
  }
}

TEST(LineChart, PngHasFilledMarkersAndGapsBetweenDashes) {
  LineChart chart = one_curve({0, 1}, {2, 2});
  chart.series.push_back({.x = {0, 0.5, 1}, .y = {3, 3, 3}, .dots = true});
  chart.series.push_back({.x = {0, 0.5, 1}, .y = {4, 4, 4}, .dots = true});  // squares
  chart.series.push_back({.x = {0, 1}, .y = {5, 5}, .estimate = true});
  const SvgReader svg(to_svg(chart));
  const test::PngPixels png(to_png(chart));
  const std::vector<Element> curves = curves_of(svg);
  ASSERT_EQ(curves.size(), 4u);
  const auto row = [&](size_t k) { return std::lround(2 * points_of(curves[k])[0].y); };
  const std::vector<Point> ends = points_of(curves[0]);
  const int64_t middle = std::lround(ends[0].x + ends[1].x);
  EXPECT_EQ(png.at(middle + 4, row(2) + 4), (Color{0x00, 0x9e, 0x73})) << "in a square's corner";
  EXPECT_EQ(png.at(middle + 5, row(1) + 5), kWhite) << "beside a circle";
  EXPECT_EQ(png.at(middle + 2, row(1) + 2), (Color{0xd5, 0x5e, 0x00})) << "in the circle";
  std::set<bool> inked;
  for (int64_t x = middle; x < middle + 40; ++x)
    inked.insert(png.at(x, row(3)) == Color{0x49, 0x50, 0x57});
  EXPECT_EQ(inked.size(), 2u) << "dashes and gaps";
}

TEST(LineChart, ChartsBelowEachOtherShareTheirSides) {
  LineChart wide = one_curve({0, 1}, {1e5, 2e5});
  wide.series[0].name = "a name";
  const std::vector<LineChart> charts = {one_curve({0, 1}, {0, 1}), wide};
  const SvgReader svg(to_svg(charts));
  const std::vector<Element> curves = curves_of(svg);
  ASSERT_EQ(curves.size(), 3u) << "two curves and a piece beside the name";
  const std::vector<Point> above = points_of(curves[0]), below = points_of(curves[1]);
  EXPECT_EQ(above[0].x, below[0].x);
  EXPECT_EQ(above[1].x, below[1].x);
  EXPECT_GT(below[1].y, above[0].y);
  EXPECT_EQ(test::PngPixels(to_png(charts)).height,
            std::lround(2 * svg.elements()[0].number("height")));
}

TEST(LineChart, CurvesThatCrossThemselvesAreNotDarker) {
  const auto draw = [](std::vector<Point> points) {
    return rasterize({20, 20, U"", {Curve{std::move(points), 1.5, {0, 0, 0}}}}, 2).pixels;
  };
  const std::vector<Color> once = draw({{2, 3}, {17, 11}});
  const std::vector<Color> back = draw({{2, 3}, {17, 11}, {2, 3}});
  // Distances from a line are rounded in another way from its other end.
  for (size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(once[i].red, back[i].red, 1) << i;
  EXPECT_GT(std::count(once.begin(), once.end(), Color{0, 0, 0}), 20);
}

TEST(LineChart, PngSaysThatItsFontLacksCharacters) {
  LineChart chart = one_curve({0, 1}, {0, 1});
  chart.title = "Loss";
  const test::PngPixels without(to_png(chart));
  chart.title = "\u65e5\u672c";
  EXPECT_GT(test::PngPixels(to_png(chart)).height, without.height) << "a caption";
}

TEST(LineChart, RefusesWhatCannotBeDrawn) {
  const auto refused = [](const LineChart& chart, ErrorCode code, const std::string& words) {
    const std::function<void()> draw[] = {[&] { to_svg(chart); }, [&] { to_png(chart); }};
    for (const auto& one : draw) {
      try {
        one();
        ADD_FAILURE() << "no error; expected " << words;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      }
    }
  };
  EXPECT_THROW(to_svg(std::vector<LineChart>{}), Error);
  refused({}, ErrorCode::shape, "finite point");
  refused(one_curve({}, {}), ErrorCode::shape, "finite point");
  refused(one_curve({0, 1}, {kNan, kInfinity}), ErrorCode::shape, "finite point");
  refused(one_curve({0, 1}, {1}), ErrorCode::shape, "as many y as x, 2, got 1");
  refused(one_curve({0, 1}, {-1e308, 1e308}), ErrorCode::argument, "beyond double");
  LineChart many;
  many.series.assign(kMaxSeries, {.x = {0}, .y = {0}});
  EXPECT_NO_THROW(to_svg(many));
  many.series.push_back(many.series[0]);
  LineChart above_zero = one_curve({1, 2}, {0, -1});
  above_zero.y_axis.scale = AxisScale::log10;
  refused(above_zero, ErrorCode::shape, "above 0 on logarithmic axes");
  refused(many, ErrorCode::unsupported, "at most 42 series, got 43");
}

}  // namespace
}  // namespace rapt::viz

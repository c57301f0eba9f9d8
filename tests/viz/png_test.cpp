// Reads the PNG back: cells, bar, hatching and text have their pixels where the SVG has them.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "viz/cells.h"
#include "viz/drawing.h"
#include "viz/examples.h"
#include "viz/png_reader.h"
#include "viz/raster.h"
#include "viz/svg_reader.h"

namespace rapt::viz {
namespace {

using test::Element;
using test::PngPixels;

constexpr int64_t kScale = 2;

Color parse(const std::string& hex) {
  const auto byte = [&](size_t at) {
    return static_cast<uint8_t>(std::stoi(hex.substr(at, 2), nullptr, 16));
  };
  return {byte(1), byte(3), byte(5)};
}

// Text widths could differ between SVG and PNG only for characters beyond ASCII.
std::vector<Element> rectangles(const Heatmap& map) {
  std::vector<Element> found;
  for (const Element& e : test::SvgReader(to_svg(map)).all("rect"))
    if (e.attributes.contains("x")) found.push_back(e);
  return found;
}

int64_t pixel(double units) { return std::lround(units * kScale); }

TEST(Png, IsTwiceTheSvg) {
  const Element svg = test::SvgReader(to_svg(test::four_tokens())).all("svg").at(0);
  const PngPixels png(to_png(test::four_tokens()));
  EXPECT_EQ(png.width, pixel(svg.number("width")));
  EXPECT_EQ(png.height, pixel(svg.number("height")));
}

TEST(Png, EveryCellHasTheColourOfItsValue) {
  for (Heatmap map : {test::four_tokens(), test::four_tokens_in_three_stops()}) {
    const PngPixels png(to_png(map));
    const double greatest = 0.9062f;
    int cells = 0;
    for (const Element& e : rectangles(map)) {
      if (!e.attributes.at("fill").starts_with('#') || e.number("width") < 40) continue;
      const Color wanted = map.colors.at(map.values[static_cast<size_t>(cells)] / greatest);
      EXPECT_EQ(parse(e.attributes.at("fill")), wanted) << "cell " << cells;
      // Tests the corners, because the number is in the middle and the frame on the outer edge.
      const int64_t inset = 4;
      const int64_t left = pixel(e.number("x")) + inset, top = pixel(e.number("y")) + inset;
      const int64_t right = left + pixel(e.number("width")) - 2 * inset - 1;
      const int64_t bottom = top + pixel(e.number("height")) - 2 * inset - 1;
      EXPECT_EQ(png.at(left, top), wanted) << "cell " << cells;
      EXPECT_EQ(png.at(right, top), wanted) << "cell " << cells;
      EXPECT_EQ(png.at(left, bottom), wanted) << "cell " << cells;
      EXPECT_EQ(png.at(right, bottom), wanted) << "cell " << cells;
      ++cells;
    }
    EXPECT_EQ(cells, 16);
  }
}

TEST(Png, BarRunsFromLowToHigh) {
  const Heatmap map = test::four_tokens();
  const PngPixels png(to_png(map));
  int bars = 0;
  for (const Element& e : rectangles(map)) {
    if (!e.attributes.at("fill").starts_with("url(#rapt-bar-")) continue;
    ++bars;
    const int64_t x = pixel(e.number("x") + e.number("width") / 2);
    const int64_t top = pixel(e.number("y")), height = pixel(e.number("height"));
    for (int64_t y = 2; y < height - 2; ++y)  // the frame covers the ends
      ASSERT_EQ(png.at(x, top + y),
                map.colors.at(1 - (static_cast<double>(y) + 0.5) / static_cast<double>(height)))
          << y;
  }
  EXPECT_EQ(bars, 1);
}

// The border around all cells.
Element border_of(const Heatmap& map) {
  for (const Element& e : rectangles(map))
    if (e.attributes.at("fill") == "none") return e;
  ADD_FAILURE() << "no border";
  return {};
}

std::set<int> colors_in(const PngPixels& png, const Element& e, double column, double row) {
  // Colours within one cell of a 4 x 4 map, without its border.
  std::set<int> found;
  const double side = e.number("width") / 4;
  for (int64_t y = pixel(e.number("y") + row * side) + 3;
       y < pixel(e.number("y") + (row + 1) * side) - 3; ++y)
    for (int64_t x = pixel(e.number("x") + column * side) + 3;
         x < pixel(e.number("x") + (column + 1) * side) - 3; ++x) {
      const Color c = png.at(x, y);
      found.insert(c.red << 16 | c.green << 8 | c.blue);
    }
  return found;
}

int code(Color c) { return c.red << 16 | c.green << 8 | c.blue; }

TEST(Png, MaskedZeroAndNotFiniteAreThreeThings) {
  Heatmap map = test::causal_with_faults();
  map.annotate = Annotate::never;
  const PngPixels png(to_png(map));
  const Element border = border_of(map);
  EXPECT_EQ(colors_in(png, border, 1, 0), (std::set<int>{code(kWhite), code(kHatchColor)}));
  EXPECT_EQ(colors_in(png, border, 0, 1), (std::set<int>{code(map.colors.at(0))}));
  EXPECT_EQ(colors_in(png, border, 1, 2), (std::set<int>{code(kNonFiniteColor)}));
  EXPECT_EQ(colors_in(png, border, 2, 3), (std::set<int>{code(kNonFiniteColor)}));
}

TEST(Png, HatchedCellsKeepTheirColourBetweenTheLines) {
  Heatmap map = test::four_tokens();
  map.annotate = Annotate::never;
  map.hatched.assign(16, 0);
  map.hatched[4] = 1;  // row 1, column 0
  const PngPixels png(to_png(map));
  const Element border = border_of(map);
  const std::set<int> hatched = colors_in(png, border, 0, 1);
  EXPECT_EQ(hatched.size(), 2u);
  EXPECT_TRUE(hatched.contains(code(kCellHatchColor)));
  EXPECT_EQ(colors_in(png, border, 1, 1).size(), 1u);
  map.hatched.clear();
  const std::set<int> plain = colors_in(PngPixels(to_png(map)), border_of(map), 0, 1);
  EXPECT_TRUE(hatched.contains(*plain.begin())) << "the weight's colour";
}

TEST(Png, NumbersContrastWithTheirCells) {
  const Heatmap map = test::causal_with_faults();
  const PngPixels png(to_png(map));
  const Element border = border_of(map);
  EXPECT_TRUE(colors_in(png, border, 0, 0).contains(0xffffff));  // 1.00 on dark blue
  EXPECT_TRUE(colors_in(png, border, 0, 1).contains(0x212529));  // 0.00 on nearly white
}

TEST(Png, LargeMapsKeepEveryCell) {
  Heatmap map = test::weights(100, 100, test::Mask::none);
  for (float& v : map.values) v = 0;
  map.values[37 * 100 + 81] = 1;
  const PngPixels png(to_png(map));
  const Element image = test::SvgReader(to_svg(map)).all("image").at(0);
  const double cell = image.number("width") / 100;
  const auto color_at = [&](double row, double column) {
    return png.at(pixel(image.number("x") + (column + 0.5) * cell),
                  pixel(image.number("y") + (row + 0.5) * cell));
  };
  EXPECT_EQ(color_at(37, 81), map.colors.at(1));
  for (const auto& [row, column] : {std::pair{36, 81}, {38, 81}, {37, 80}, {37, 82}})
    EXPECT_EQ(color_at(row, column), map.colors.at(0)) << row << ", " << column;
}

TEST(Png, TurnedTextReadsUpwards) {
  constexpr int64_t kSide = 60;
  const auto draw = [](Turn turn) {
    const double middle = kSide / 2;
    return rasterize(
        {kSide,
         kSide,
         U"",
         {Text{middle, middle, 16, Anchor::middle, turn, Weight::normal, {}, U"7L\u65e5"}}},
        1);
  };
  const Raster level = draw(Turn::none), upwards = draw(Turn::upwards);
  int64_t inked = 0;
  for (int64_t y = 0; y < kSide; ++y)
    for (int64_t x = 0; x < kSide; ++x) {
      const Color ink = level.pixels[y * kSide + x];
      const Color turned = upwards.pixels[(kSide - 1 - x) * kSide + y];
      EXPECT_NEAR(ink.red, turned.red, 1) << x << ", " << y;
      inked += ink.red < 0x80;
    }
  EXPECT_GT(inked, 50);
}

TEST(Png, HasTheLettersOfEuropeAndBoxesForTheRest) {
  Heatmap map = test::two_tokens();
  map.row_labels = {"Straße naïve Łódź čeština þæð ơ e\u0323\u0301 «¿", "Ελληνικά ΰ"};
  map.column_labels = {"Привіт, ёж", "„€“␣↵"};
  EXPECT_EQ(boxed_characters(map), 0);
  map.column_labels[1] = "日本";
  EXPECT_EQ(boxed_characters(map), 2);
  map.title = "שלום";
  EXPECT_EQ(boxed_characters(map), 6);
}

TEST(Png, EveryPrintableCharacterLeavesInk) {
  Heatmap map{.rows = 1, .columns = 1, .values = {0}, .x_label = "", .y_label = ""};
  const auto dark = [&] {
    const PngPixels png(to_png(map));
    int64_t count = 0;
    for (int64_t y = 0; y < png.height; ++y)
      for (int64_t x = 0; x < png.width; ++x) count += png.at(x, y).red < 0x60;
    return count;
  };
  map.row_labels = {""};
  const int64_t without = dark();
  for (char c = '!'; c <= '~'; ++c) {
    map.row_labels = {std::string(1, c)};
    EXPECT_GT(dark(), without) << c;
  }
  map.row_labels = {"\xe6\x97\xa5"};
  EXPECT_GT(dark(), without + 50) << "a box with four digits";
}

}  // namespace
}  // namespace rapt::viz

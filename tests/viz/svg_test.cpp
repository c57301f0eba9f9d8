// The SVG is well-formed, self-contained and small.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "viz/cells.h"
#include "viz/drawing.h"
#include "viz/examples.h"
#include "viz/layout.h"
#include "viz/png_reader.h"
#include "viz/svg_reader.h"

namespace rapt::viz {
namespace {

using test::Element;
using test::SvgReader;

std::vector<unsigned char> decode_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes;
  unsigned bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(digits.find(c));
    if ((count += 6) >= 8) bytes.push_back(static_cast<unsigned char>(bits >> (count -= 8)));
  }
  return bytes;
}

test::PngPixels embedded(const SvgReader& svg) {
  const std::string prefix = "data:image/png;base64,";
  const std::string href = svg.all("image").at(0).attributes.at("xlink:href");
  EXPECT_TRUE(href.starts_with(prefix));
  return test::PngPixels(decode_base64(href.substr(prefix.size())));
}

std::string all_text(const SvgReader& svg) {
  std::string text;
  for (const Element& e : svg.all("text")) text += e.text + "\n";
  return text;
}

TEST(Svg, HasSizeViewBoxTitleAndGenericFont) {
  const SvgReader svg(to_svg(test::four_tokens()));
  const Element root = svg.elements().at(0);
  EXPECT_EQ(root.name, "svg");
  EXPECT_EQ(root.attributes.at("viewBox"),
            "0 0 " + root.attributes.at("width") + " " + root.attributes.at("height"));
  EXPECT_EQ(root.attributes.at("font-family"), "sans-serif");
  EXPECT_EQ(svg.all("title").at(0).text, "Attention weights");
}

TEST(Svg, ShowsLabelsTitlesAndValues) {
  const std::string text = all_text(SvgReader(to_svg(test::four_tokens())));
  for (const char* word : {"Query 0\n", "Query 3\n", "Key 0\n", "Key 3\n", "Keys\n", "Queries\n",
                           "Attention weights\n", "0.18\n", "0.31\n", "0.33\n", "0.91\n"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
  const std::string four = all_text(SvgReader(to_svg(test::four_tokens_in_three_stops())));
  for (const char* word : {"0.1813\n", "0.3056\n", "0.3317\n", "0.1814\n"})
    EXPECT_NE(four.find(word), std::string::npos) << word;
}

TEST(Svg, HoldsOnlyHarmlessElementsWhateverTheLabels) {
  const std::set<std::string> known = {"svg",  "title", "rect", "g",     "path",
                                       "text", "defs",  "stop", "image", "linearGradient"};
  for (const Heatmap& map : {test::hostile_labels(), test::weights(70, 70, test::Mask::causal),
                             test::causal_with_faults()}) {
    const SvgReader svg(to_svg(map));
    for (const Element& e : svg.elements()) {
      EXPECT_TRUE(known.contains(e.name)) << e.name;
      for (const auto& [name, value] : e.attributes) {
        EXPECT_FALSE(name.starts_with("on")) << name;
        if (!name.ends_with("href")) continue;
        EXPECT_TRUE(value.starts_with("data:image/png;base64,")) << value;
      }
    }
  }
}

TEST(Svg, ShortensAndCleansLabels) {
  const std::string text = all_text(SvgReader(to_svg(test::hostile_labels())));
  EXPECT_NE(text.find("&lt;b&gt;&amp;amp;&quot;x&quot;&lt;/b&gt;\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\ndesrever\n"), std::string::npos) << "the override is dropped";
  EXPECT_NE(text.find("\nok\n"), std::string::npos) << "the zero byte is dropped";
  EXPECT_NE(text.find("\ntab here \n"), std::string::npos) << "white space is a blank";
  EXPECT_NE(text.find("\nbad \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\n"), std::string::npos);
  EXPECT_NE(text.find("W\xe2\x80\xa6\n"), std::string::npos);
  EXPECT_EQ(text.find(std::string(100, 'W')), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Svg, IsVectorsUpToItsLimitAndAnImageAbove) {
  const SvgReader vectors(to_svg(test::weights(kMaxVectorCells, 64, test::Mask::none)));
  EXPECT_TRUE(vectors.all("image").empty());
  EXPECT_GT(vectors.all("rect").size(), 4096u);
  const SvgReader image(to_svg(test::weights(kMaxVectorCells + 1, 64, test::Mask::none)));
  EXPECT_EQ(image.all("image").size(), 1u);
  EXPECT_LT(image.all("rect").size(), 10u);
  const test::PngPixels pixels = embedded(image);
  // Two pixels per unit, so that a program that smooths images blurs no cell.
  EXPECT_EQ(pixels.width, std::lround(2 * image.all("image").at(0).number("width")));
  EXPECT_EQ(pixels.height, std::lround(2 * image.all("image").at(0).number("height")));
  EXPECT_EQ(pixels.width % 64, 0);
  EXPECT_EQ(pixels.height % 65, 0);
}

TEST(Svg, ImageLetsTheHatchingThroughMaskedCells) {
  const SvgReader svg(to_svg(test::weights(100, 100, test::Mask::causal)));
  const test::PngPixels pixels = embedded(svg);
  const int64_t cell = pixels.width / 100;
  EXPECT_FALSE(pixels.opaque(51 * cell, 50 * cell));
  EXPECT_TRUE(pixels.opaque(51 * cell - 1, 50 * cell));
  EXPECT_NE(all_text(svg).find("masked"), std::string::npos);
}

TEST(Svg, PoolsByMaximumAndSaysSo) {
  Heatmap map{.rows = 4096, .columns = 1025};
  map.values.assign(static_cast<size_t>(map.rows * map.columns), 0);
  const auto cell = [&](int64_t row, int64_t column) -> float& {
    return map.values[static_cast<size_t>(row * map.columns + column)];
  };
  cell(4 * 100 + 3, 2 * 200 + 1) = 1;
  cell(4 * 300, 2 * 400) = std::numeric_limits<float>::quiet_NaN();
  cell(4 * 300 + 1, 2 * 400) = 1;  // the fault in the next cell must remain visible
  const std::string document = to_svg(map);
  const SvgReader svg(document);
  const test::PngPixels pixels = embedded(svg);
  const int64_t across = pixels.width / 513, down = pixels.height / 1024;
  EXPECT_EQ(pixels.width, 513 * across);
  EXPECT_EQ(pixels.height, 1024 * down);
  EXPECT_EQ(pixels.at(200 * across, 100 * down), map.colors.at(1));
  EXPECT_EQ(pixels.at(200 * across, 101 * down), map.colors.at(0));
  EXPECT_EQ(pixels.at(400 * across, 300 * down), kNonFiniteColor);
  EXPECT_NE(all_text(svg).find("4096 \xc3\x97 1025 cells; each pixel is the maximum of"),
            std::string::npos)
      << all_text(svg);
  EXPECT_LT(document.size(), 100'000u);
}

TEST(Svg, SharesNoIdentifierWithAnotherPicture) {
  std::set<std::string> seen;
  for (Heatmap map : {test::two_tokens(), test::four_tokens(), test::causal_with_faults(),
                      test::weights(70, 70, test::Mask::causal)}) {
    for (const std::string title : {"one", "two"}) {
      map.title = title;
      int named = 0;
      const SvgReader svg(to_svg(map));
      for (const Element& e : svg.elements()) {
        if (!e.attributes.contains("id")) continue;
        ++named;
        EXPECT_TRUE(seen.insert(e.attributes.at("id")).second) << e.attributes.at("id");
      }
      EXPECT_EQ(named, 1) << "the bar";
    }
  }
}

TEST(Svg, HatchingStaysInItsArea) {
  Heatmap map = test::weights(3, 5, test::Mask::causal);
  const SvgReader svg(to_svg(map));
  const double width = svg.elements().at(0).number("width");
  int areas = 0;
  for (const Element& path : svg.all("path")) {
    if (!path.attributes.contains("stroke-width")) continue;
    ++areas;
    const std::string& d = path.attributes.at("d");
    ASSERT_EQ(d.front(), 'M');
    for (size_t at = 0; at < d.size(); at = d.find_first_of("ML", at + 1)) {
      const double x = std::stod(d.substr(at + 1));
      EXPECT_GE(x, 0);
      EXPECT_LE(x, width);
    }
  }
  EXPECT_EQ(areas, 2) << "the map and its legend";
}

// Small maps and images: lines cross the hatched cells in each of their diagonals, and no other.
TEST(Svg, LinesOverCellsStayInTheHatchedOnesAndHaveALegend) {
  for (const int64_t side : {4, 70}) {
    Heatmap map = test::weights(side, side, test::Mask::none);
    map.annotate = Annotate::never;
    map.hatched.assign(map.values.size(), 0);
    const int64_t row = 1, column = 2;  // and the cell to the right of it
    map.hatched[static_cast<size_t>(row * side + column)] = 1;
    map.hatched[static_cast<size_t>(row * side + column + 1)] = 1;
    map.hatched_label = "not looked at";
    const SvgReader svg(to_svg(map));
    EXPECT_NE(all_text(svg).find("not looked at\n"), std::string::npos) << all_text(svg);
    EXPECT_EQ(all_text(svg).find("masked"), std::string::npos);
    std::vector<Element> lines;
    for (const Element& path : svg.all("path"))
      if (path.attributes.contains("stroke-width")) lines.push_back(path);
    ASSERT_EQ(lines.size(), 2u) << "the map and its legend";
    const Drawing drawing = lay_out(map, Foreign::by_viewer);
    const auto cells = std::ranges::find_if(drawing.shapes, [](const Shape& shape) {
      return std::holds_alternative<HatchedCells>(shape);
    });
    const Box box = std::get<HatchedCells>(*cells).box;
    const double cell = box.width / static_cast<double>(side), rounded = 0.006;
    const std::string& d = lines[0].attributes.at("d");
    double length = 0, begin = 0;  // along x
    for (size_t at = 0; at < d.size(); at = d.find_first_of("ML", at + 1)) {
      size_t read = 0;
      const double x = std::stod(d.substr(at + 1), &read);
      const double y = std::stod(d.substr(at + 1 + read));
      EXPECT_GE(x, box.x + 2 * cell - rounded);
      EXPECT_LE(x, box.x + 4 * cell + rounded);
      EXPECT_GE(y, box.y + cell - rounded);
      EXPECT_LE(y, box.y + 2 * cell + rounded);
      if (d[at] == 'M')
        begin = x;
      else
        length += x - begin;
    }
    // One line for each period across a cell and along both, which is a half more or less.
    EXPECT_NEAR(length * kHatchPeriod, 2 * cell * cell, cell * kHatchPeriod) << side;
  }
}

TEST(Svg, MapsOfYesAndNoHaveALegendAndNoBar) {
  Heatmap map = test::weights(3, 5, test::Mask::causal);
  map.legend = Legend::allowed;
  const SvgReader svg(to_svg(map));
  EXPECT_TRUE(svg.all("linearGradient").empty());
  EXPECT_NE(all_text(svg).find("allowed\nmasked\n"), std::string::npos) << all_text(svg);
}

TEST(Svg, TicksOfPooledMapsCountPositions) {
  Heatmap map = test::weights(8, 8, test::Mask::none);
  map.positions_per_row = 250;
  map.positions_per_column = 12.5;
  const std::string text = all_text(SvgReader(to_svg(map)));
  for (const char* tick : {"0\n", "1800\n", "50\n"})
    EXPECT_NE(text.find(tick), std::string::npos) << tick << text;
  EXPECT_EQ(text.find("\n2000\n"), std::string::npos) << "beyond the end";
}

// In a left-to-right line, punctuation after the last Hebrew letter would appear on its right.
TEST(Svg, LabelsFromRightToLeftKeepTheirPunctuation) {
  Heatmap map = test::two_tokens();
  map.row_labels = {"שלום!", "shalom!"};
  map.column_labels = {"(שלום)", "שלום"};
  const std::string text = all_text(SvgReader(to_svg(map)));
  for (const char* label : {"שלום!\u200f\n", "\nshalom!\n", "\n\u200f(שלום)\u200f\n", "\nשלום\n"})
    EXPECT_NE(text.find(label), std::string::npos) << label << text;
}

TEST(Svg, SaysWhenTheBarEndsBeforeTheValues) {
  Heatmap map = test::four_tokens();
  EXPECT_EQ(all_text(SvgReader(to_svg(map))).find("beyond"), std::string::npos);
  map.range = ValueRange{0, 0.5};
  EXPECT_NE(all_text(SvgReader(to_svg(map))).find("beyond"), std::string::npos);
}

TEST(Svg, DrawsConstantMaps) {
  for (float value : {0.0f, -1.0f, 1e-30f, 3e38f}) {
    const Heatmap map{.rows = 2, .columns = 2, .values = std::vector<float>(4, value)};
    EXPECT_NO_THROW(SvgReader{to_svg(map)}) << value;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NO_THROW(SvgReader{to_svg({.rows = 1, .columns = 1, .values = {nan}})});
  EXPECT_NO_THROW(SvgReader{to_svg({.rows = 1, .columns = 1, .values = {1}, .allowed = {0}})});
}

}  // namespace
}  // namespace rapt::viz

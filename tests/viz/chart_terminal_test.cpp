// Line charts as lines of text.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>

#include "rapt/error.h"
#include "rapt/viz/chart.h"
#include "viz/examples.h"
#include "viz/text/label_text.h"

namespace rapt::viz {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(ChartTerminal, FitsItsWidthAndKeepsAllNames) {
  LineChart chart = test::times();
  for (size_t k = 3; k < kMaxSeries; ++k)
    chart.series.push_back({.name = "series " + std::to_string(k), .x = {128}, .y = {1e-3}});
  for (int width = kMinTerminalWidth; width <= 120; ++width) {
    const std::vector<std::string> lines =
        lines_of(to_terminal(chart, {TerminalColor::ascii, width}));
    for (const std::string& line : lines) EXPECT_LE(display_width(clean_text(line)), width) << line;
    for (size_t k = 3; k < kMaxSeries; ++k)
      EXPECT_EQ(std::ranges::count_if(lines,
                                      [&](const std::string& line) {
                                        return line.ends_with("series " + std::to_string(k));
                                      }),
                1)
          << k << " at " << width;
    if (HasFailure()) return;
  }
}

TEST(ChartTerminal, MarkersStandAtTheirPoints) {
  const LineChart chart{.series = {{.x = {0, 10}, .y = {0, 1}, .dots = true},
                                   {.x = {0, 10}, .y = {1, 0}, .dots = true}}};
  const std::vector<std::string> lines = lines_of(to_terminal(chart, {TerminalColor::ascii, 40}));
  const auto row = [&](const std::string& tick) {
    return std::ranges::find_if(
        lines, [&](const std::string& line) { return line.find(tick + "|") != std::string::npos; });
  };
  const std::string top = *row("1.0"), bottom = *row("0.0");
  EXPECT_EQ(top.find('#'), top.find('|') + 1);
  EXPECT_EQ(top.back(), 'o');
  EXPECT_EQ(bottom.find('o'), bottom.find('|') + 1);
  EXPECT_EQ(bottom.back(), '#');
}

TEST(ChartTerminal, NamesCannotBecomeEscapes) {
  LineChart chart = test::losses();
  chart.title = chart.note = chart.x_axis.label = chart.series[0].name = "\x1b[31m\x07";
  EXPECT_EQ(to_terminal(chart, {TerminalColor::ascii, 80}).find_first_of("\x1b\x07"),
            std::string::npos);
}

TEST(ChartTerminal, RefusesNarrowTerminalsAndEmptyCharts) {
  EXPECT_THROW(to_terminal(test::losses(), {TerminalColor::ascii, kMinTerminalWidth - 1}), Error);
  EXPECT_THROW(to_terminal(LineChart{}, {TerminalColor::ascii, 80}), Error);
}

}  // namespace
}  // namespace rapt::viz

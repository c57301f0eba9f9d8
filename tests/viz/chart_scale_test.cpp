// Scales of charts: ticks that people expect over any range, and labels that keep their distance.
#include "viz/chart/chart_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "viz/chart/spread.h"

namespace rapt::viz {
namespace {

std::vector<std::string> texts(const ChartAxis& axis, double low, double high, int count) {
  std::vector<std::string> texts;
  for (const Tick& tick : ChartScale(axis, {low, high}).ticks(count)) texts.push_back(tick.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(ChartScale, TicksOfLogarithmicAxesAreThoseThatPeopleExpect) {
  const ChartAxis plain{.scale = AxisScale::log10};
  EXPECT_EQ(texts(plain, 1, 1e6, 8),
            (Texts{"1", "10", "100", "1000", "10000", "100000", "1000000"}));
  EXPECT_EQ(texts(plain, 1e-3, 2e-1, 8),
            (Texts{"0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2"}));
  EXPECT_EQ(texts(plain, 1e-6, 1, 4), (Texts{"1e-06", "0.0001", "0.01", "1"}));
  EXPECT_EQ(texts(plain, 3, 4.5, 4), (Texts{"3.0", "3.5", "4.0", "4.5"})) << "less than a power";
  EXPECT_EQ(texts({.scale = AxisScale::log10, .unit = AxisUnit::seconds}, 2e-5, 40, 8),
            (Texts{"100 \u00b5s", "1 ms", "10 ms", "100 ms", "1 s", "10 s"}));
  const ChartAxis lengths{.scale = AxisScale::log2};
  EXPECT_EQ(texts(lengths, 128, 1024, 8), (Texts{"128", "256", "512", "1024"}));
  EXPECT_EQ(texts(lengths, 128, 131072, 6), (Texts{"256", "1024", "4096", "16384", "65536"}));
  const ChartAxis memory{.scale = AxisScale::log2, .unit = AxisUnit::bytes};
  EXPECT_EQ(texts(memory, 1e5, 5e9, 8),
            (Texts{"256 KiB", "1 MiB", "4 MiB", "16 MiB", "64 MiB", "256 MiB", "1 GiB", "4 GiB"}));
  EXPECT_EQ(texts(memory, 900, 9000, 8), (Texts{"1 KiB", "2 KiB", "4 KiB", "8 KiB"}));
}

// Ticks rise, lie on the axis, are as many as asked for, and stand where their texts say.
TEST(ChartScale, LogarithmicTicksOverOneToTwelveDecadesAreLawful) {
  for (const AxisScale kind : {AxisScale::log2, AxisScale::log10})
    for (double decades = 1; decades <= 12; decades += 0.25)
      for (const double low : {1.0, 3.7e-9, 2.2e5})
        for (const int count : {3, 6, 10}) {
          const double high = low * std::pow(10.0, decades);
          SCOPED_TRACE(std::to_string(low) + " to " + std::to_string(high));
          const ChartScale scale({.scale = kind}, {low, high});
          const std::vector<Tick> ticks = scale.ticks(count);
          EXPECT_GE(ticks.size(), 1u);
          EXPECT_LE(std::ssize(ticks), count + 1);
          for (size_t i = 0; i < ticks.size(); ++i) {
            const double told = std::strtod(ticks[i].text.c_str(), nullptr);
            EXPECT_NEAR(told / ticks[i].value, 1, 1e-3) << ticks[i].text;
            EXPECT_GE(scale.part(ticks[i].value), -1e-9);
            EXPECT_LE(scale.part(ticks[i].value), 1 + 1e-9);
            EXPECT_TRUE(i == 0 || ticks[i].value > ticks[i - 1].value);
          }
          if (HasFailure()) return;
        }
}

TEST(ChartScale, PartsOfLogarithmicAxesFollowPowers) {
  ChartScale scale({.scale = AxisScale::log10}, {1, 1e4});
  EXPECT_DOUBLE_EQ(scale.part(100), 0.5);
  scale.add_headroom(0.25);
  EXPECT_DOUBLE_EQ(scale.part(1), 1.0 / 6);
  EXPECT_DOUBLE_EQ(ChartScale({.scale = AxisScale::log2}, {8, 8}).part(8), 0.5) << "one value";
  EXPECT_FALSE(ChartScale::shows(AxisScale::log2, 0));
  EXPECT_TRUE(ChartScale::shows(AxisScale::linear, -1));
}

TEST(ChartScale, TextsNameUnits) {
  EXPECT_EQ(tick_text(0, AxisUnit::seconds), "0");
  EXPECT_EQ(tick_text(1.5e-10, AxisUnit::seconds), "0.15 ns");
  EXPECT_EQ(tick_text(2.5, AxisUnit::seconds), "2.5 s");
  EXPECT_EQ(tick_text(0.5, AxisUnit::bytes), "0.5 B");
  EXPECT_EQ(tick_text(0x1p45, AxisUnit::bytes), "32 TiB");
}

TEST(Spread, PlacesStayWhereTheyFit) {
  EXPECT_EQ(spread({30, 10}, 5, 0, 100), (std::vector<double>{30, 10}));
  EXPECT_EQ(spread({20, 20}, 10, 0, 100), (std::vector<double>{15, 25}));
  EXPECT_EQ(spread({-50, 99}, 10, 0, 100), (std::vector<double>{0, 99}));
  EXPECT_EQ(spread({98, 99, 100}, 10, 0, 100), (std::vector<double>{80, 90, 100}));
}

}  // namespace
}  // namespace rapt::viz

#include "viz/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace rapt::viz {
namespace {

std::string ticks(double low, double high, int count) {
  std::string all;
  for (const Tick& tick : round_ticks(low, high, count)) all += tick.text + " ";
  return all;
}

TEST(Numbers, TicksAreRound) {
  EXPECT_EQ(ticks(0, 1, 5), "0.0 0.2 0.4 0.6 0.8 1.0 ");
  EXPECT_EQ(ticks(0, 0.5526, 4), "0.0 0.2 0.4 ");
  EXPECT_EQ(ticks(-0.3, 0.3, 6), "-0.3 -0.2 -0.1 0.0 0.1 0.2 0.3 ");
  EXPECT_EQ(ticks(0, 0.0361, 8), "0.000 0.005 0.010 0.015 0.020 0.025 0.030 0.035 ");
  EXPECT_EQ(ticks(0, 30, 3), "0 10 20 30 ");
  EXPECT_EQ(ticks(0, 2e-9, 2), "0 1e-09 2e-09 ");
}

TEST(Numbers, TicksStayInTheirRange) {
  for (double low : {-7.3, 0.0, 1e-3})
    for (double span : {1e-12, 3e-5, 0.7, 12.0, 1e9})
      for (int count : {1, 3, 8}) {
        const double slack = 1e-8 * (std::fabs(low) + span);
        for (const Tick& tick : round_ticks(low, low + span, count)) {
          EXPECT_GE(tick.value, low - slack);
          EXPECT_LE(tick.value, low + span + slack);
        }
        EXPECT_LE(round_ticks(low, low + span, count).size(), static_cast<size_t>(count + 1));
      }
}

TEST(Numbers, ValuesHaveTheirDecimals) {
  EXPECT_EQ(format_value(0.1813f, 2), "0.18");
  EXPECT_EQ(format_value(0.1813f, 4), "0.1813");
  EXPECT_EQ(format_value(-0.001, 2), "0.00");
  EXPECT_EQ(format_value(-0.006, 2), "-0.01");
  EXPECT_EQ(format_value(3e38, 2), "3.00e+38");
  EXPECT_EQ(format_value(std::nan(""), 2), "nan");
  EXPECT_EQ(format_value(-std::numeric_limits<double>::infinity(), 2), "-inf");
}

TEST(Numbers, StepsAreOneTwoFive) {
  EXPECT_EQ(round_step(0.1), 1);
  EXPECT_EQ(round_step(1), 1);
  EXPECT_EQ(round_step(1.01), 2);
  EXPECT_EQ(round_step(21), 50);
  EXPECT_EQ(round_step(200), 200);
}

}  // namespace
}  // namespace rapt::viz

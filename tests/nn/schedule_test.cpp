#include "rapt/nn/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"

namespace {

using namespace rapt;
using laws::expect_error;

TEST(ScheduleTest, WarmsUpAndDecays) {
  const nn::WarmupCosine schedule{
      .peak = 0.5, .warmup_steps = 4, .total_steps = 12, .min_ratio = 0.2};
  const double expected[] = {0.1, 0.2, 0.3, 0.4, 0.5};
  for (int64_t t = 0; t < 5; ++t)
    EXPECT_NEAR(nn::learning_rate(schedule, t), expected[t], 1e-16) << t;
  EXPECT_NEAR(nn::learning_rate(schedule, 6), 0.1 + 0.4 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  EXPECT_NEAR(nn::learning_rate(schedule, 8), 0.3, 1e-15);
  for (int64_t t = 5; t < 12; ++t)
    EXPECT_LT(nn::learning_rate(schedule, t), nn::learning_rate(schedule, t - 1)) << t;
  for (const int64_t t : {int64_t{12}, int64_t{13}, INT64_MAX})
    EXPECT_NEAR(nn::learning_rate(schedule, t), 0.1, 1e-16);
}

TEST(ScheduleTest, EdgesOfTheSchedule) {
  EXPECT_EQ(nn::learning_rate({.peak = 2, .total_steps = 10}, 0), 2);
  EXPECT_EQ(nn::learning_rate({.peak = 2, .warmup_steps = 3, .total_steps = 3}, 2), 1.5);
  EXPECT_EQ(nn::learning_rate({.peak = 2, .warmup_steps = 3, .total_steps = 3}, 3), 0);
  EXPECT_EQ(nn::learning_rate({.peak = 2, .total_steps = 9, .min_ratio = 1}, 5), 2);
  EXPECT_EQ(nn::learning_rate({.peak = 1, .warmup_steps = INT64_MAX, .total_steps = INT64_MAX}, 0),
            0x1p-63);
}

TEST(ScheduleTest, Rejects) {
  const auto rejects = [](const char* name, const nn::WarmupCosine& schedule, int64_t step = 0) {
    expect_error(ErrorCode::argument, {name}, [&] { nn::learning_rate(schedule, step); });
  };
  for (const double bad : {-1.0, double{NAN}, HUGE_VAL})
    rejects("peak", {.peak = bad, .total_steps = 1});
  for (const double bad : {-0.1, 1.1, double{NAN}})
    rejects("min_ratio", {.total_steps = 1, .min_ratio = bad});
  rejects("warmup_steps", {.warmup_steps = -1, .total_steps = 1});
  rejects("total_steps", {.warmup_steps = 2, .total_steps = 1});
  rejects("step is -1", {.total_steps = 1}, -1);
}

}  // namespace

// The short 2^x, used for weights that are rounded to bf16. It is within 1.75 ulp, and exact where
// its contract says so. A variant flushes denormal results to 0.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/cpu.h"
#include "kernels/ulp.h"

namespace rapt {
namespace isa_avx512_short {
void short_exp2(const float* x, float* y, int64_t count);
void short_normal_exp2(const float* x, float* y, int64_t count);
}  // namespace isa_avx512_short
namespace isa_plain16_short {
void short_exp2(const float* x, float* y, int64_t count);
void short_normal_exp2(const float* x, float* y, int64_t count);
}  // namespace isa_plain16_short
namespace {

using Function = void (*)(const float* x, float* y, int64_t count);

// Calls visit(exp2, normal_exp2) for every set that this machine runs.
void for_sets(const std::function<void(Function, Function)>& visit) {
  if (!cpu_has("amx_emulated")) GTEST_SKIP() << "this machine has no FMA";
  {
    SCOPED_TRACE("plain16");
    visit(isa_plain16_short::short_exp2, isa_plain16_short::short_normal_exp2);
  }
  if (!cpu_has("avx512")) return;
  SCOPED_TRACE("avx512");
  visit(isa_avx512_short::short_exp2, isa_avx512_short::short_normal_exp2);
}

TEST(ShortExp2, WithinItsBound) {
  const auto exact = [](Wide<float> x) { return std::exp2(x); };
  for_sets([&](Function short_exp2, Function) {
    const auto worst = [&](float from, float to) {
      return worst_ulp<float>("short exp2", short_exp2, exact, from, to);
    };
    EXPECT_LE(worst(-1.5e-8f, -126), 1.75);
    EXPECT_LE(worst(1.5e-8f, 127), 1.75);
  });
}

TEST(ShortExp2, SpecialValues) {
  // From 2^17 on, the table index no longer fits beside 1.5 * 2^18.
  const float x[16] = {0,        -0.0f, -INFINITY, 1,          -126,       NAN,    -1e30f,
                       INFINITY, 1e30f, 131072,    -131073.5f, 300000.25f, -999999};
  for_sets([&](Function short_exp2, Function) {
    float y[16];
    short_exp2(x, y, 16);
    EXPECT_EQ(y[0], 1);
    EXPECT_EQ(y[1], 1);
    EXPECT_EQ(y[2], 0);
    EXPECT_EQ(y[3], 2);
    EXPECT_EQ(y[4], 0x1p-126f);
    EXPECT_TRUE(std::isnan(y[5]));
    EXPECT_EQ(y[6], 0);
    for (const int huge : {7, 8, 9, 11}) EXPECT_EQ(y[huge], INFINITY) << x[huge];
    for (const int small : {10, 12}) EXPECT_EQ(y[small], 0) << x[small];
  });
}

TEST(ShortExp2, OfWeightsIsNormalOrZero) {
  const float below = std::nextafter(-126.0f, -200.0f), above = std::nextafter(-126.0f, 0.0f);
  const float x[16] = {0,    -0.0f, -INFINITY, 1,        -126,   above,    below,  -126.5f,
                       -149, -150,  NAN,       INFINITY, -1e30f, -127.25f, -0.25f, -131073.5f};
  for_sets([&](Function short_exp2, Function short_normal_exp2) {
    float y[16], z[16];
    short_exp2(x, y, 16);
    short_normal_exp2(x, z, 16);
    for (int i = 0; i < 16; ++i) {
      if (std::isnan(x[i]))
        EXPECT_TRUE(std::isnan(z[i]));
      else
        EXPECT_EQ(z[i], x[i] < -126 ? 0 : y[i]) << x[i];
    }
    EXPECT_GT(y[7], 0);  // so the result of the unflushed 2^x is denormal
  });
}

}  // namespace
}  // namespace rapt

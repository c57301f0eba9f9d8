// 2^x of a float32 argument is within 1 ulp, on every instruction set, for every argument that a
// normaliser can ask for; special values are exact.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "rapt/instruction_sets.h"

#define RAPT_X(isa)                                         \
  namespace rapt::isa_##isa {                               \
    void exp2_all(const float* x, float* y, int64_t count); \
  }
#include "rapt_isas.inc"
#undef RAPT_X

namespace rapt {
namespace {

constexpr int64_t kBatch = 4096;

void exp2_all(const float* x, float* y, int64_t count) {
  for (const InstructionSet& set : instruction_sets()) {
    if (!set.chosen) continue;
#define RAPT_X(isa) \
  if (std::string(set.name) == #isa) return isa_##isa::exp2_all(x, y, count);
#include "rapt_isas.inc"
#undef RAPT_X
  }
}

// Every float, where that takes seconds; every 997th in builds that are many times slower.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr uint32_t kStep = 1;
#else
constexpr uint32_t kStep = 997;
#endif

// Largest error in ulp of the result over all floats between two of one sign, by rising magnitude.
double worst_ulp(float from, float to) {
  double worst = 0;
  float x[kBatch], y[kBatch];
  uint32_t bits = std::bit_cast<uint32_t>(from);
  const uint32_t end = std::bit_cast<uint32_t>(to);
  while (bits <= end) {
    for (float& one : x) {
      one = std::bit_cast<float>(bits <= end ? bits : end);
      bits += kStep;
    }
    exp2_all(x, y, kBatch);
    for (int64_t i = 0; i < kBatch; ++i) {
      const double exact = std::exp2(static_cast<double>(x[i]));
      const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
      const double error = std::fabs(y[i] - exact) / ulp;
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

TEST(Exp2, WithinOneUlpBelowZero) {
  // Above -2^-26 the result is 1 to the last bit; below -126 it is no normal number.
  EXPECT_LE(worst_ulp(-0x1p-26f, -126.0f), 1.0);
}

TEST(Exp2, WithinOneUlpAboveZero) { EXPECT_LE(worst_ulp(0x1p-26f, 127.0f), 1.0); }

TEST(Exp2, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  float x[16] = {0, -0.0f, -inf, std::nanf(""), -127, -150, -1e30f, -126, 1, -1e-40f}, y[16];
  exp2_all(x, y, 16);
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], 0);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_LE(y[4], 0x1p-126f);  // gradual underflow or 0
  EXPECT_LE(y[5], 0x1p-149f);
  EXPECT_EQ(y[6], 0);
  EXPECT_EQ(y[7], 0x1p-126f);
  EXPECT_EQ(y[8], 2);
  EXPECT_EQ(y[9], 1);
}

TEST(Exp2, NoTinyNegativeGivesMoreThanOne) {
  float x[16], y[16];
  for (int i = 0; i < 16; ++i) x[i] = -std::ldexp(1.0f, -20 - 4 * i);
  exp2_all(x, y, 16);
  for (const float one : y) {
    EXPECT_LE(one, 1);
    EXPECT_GE(one, 0.999999f);
  }
}

}  // namespace
}  // namespace rapt

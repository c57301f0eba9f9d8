// BFloat16 and Float16 against their definition: a search for the nearest value among all values of
// the type.
#include "rapt/float16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "rapt/tensor.h"

namespace rapt {
namespace {

// The layout of the bits: sign, exponent, fraction.
template <class T>
struct Layout;
template <>
struct Layout<BFloat16> {
  static constexpr int kExponent = 8, kFraction = 7;
};
template <>
struct Layout<Float16> {
  static constexpr int kExponent = 5, kFraction = 10;
};

// The bits of infinity. Larger bits are NaN; smaller ones are finite, in increasing order.
template <class T>
constexpr uint16_t kInfinity = static_cast<uint16_t>(((1 << Layout<T>::kExponent) - 1)
                                                     << Layout<T>::kFraction);

// The value of non-negative bits by the textbook formula. Infinity gets the value of the next power
// of two, which rounding compares with.
template <class T>
double value_of(uint16_t bits) {
  constexpr int kFraction = Layout<T>::kFraction, kBias = (1 << (Layout<T>::kExponent - 1)) - 1;
  const int exponent = bits >> kFraction, fraction = bits & ((1 << kFraction) - 1);
  return exponent == 0 ? std::ldexp(fraction, 1 - kBias - kFraction)
                       : std::ldexp(fraction + (1 << kFraction), exponent - kBias - kFraction);
}

template <class T>
uint16_t nearest(double x) {
  static const std::vector<double> values = [] {
    std::vector<double> all;
    for (int bits = 0; bits <= kInfinity<T>; ++bits)
      all.push_back(value_of<T>(static_cast<uint16_t>(bits)));
    return all;
  }();
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::fabs(x);
  const auto above = std::lower_bound(values.begin(), values.end(), magnitude);
  if (above == values.end()) return sign | kInfinity<T>;
  size_t index = static_cast<size_t>(above - values.begin());
  if (*above != magnitude) {
    const double up = *above - magnitude, down = magnitude - above[-1];
    if (down < up || (down == up && index % 2 == 1)) --index;
  }
  return static_cast<uint16_t>(sign | index);
}

// Tests the rounding of a float or a double.
template <class T, class Number>
void expect_nearest(Number x) {
  ASSERT_EQ(T::from(x).bits, nearest<T>(x)) << std::hexfloat << x;
}

template <class T>
class Float16Test : public testing::Test {};
using Types = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Float16Test, Types, );

TYPED_TEST(Float16Test, EveryValueMeansWhatTheLayoutSays) {
  for (int i = 0; i < 0x10000; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i), magnitude = bits & 0x7FFF;
    const float x = TypeParam{bits};
    EXPECT_EQ(std::signbit(x), i >= 0x8000);
    if (magnitude > kInfinity<TypeParam>)
      EXPECT_TRUE(std::isnan(x));
    else if (magnitude == kInfinity<TypeParam>)
      EXPECT_EQ(std::fabs(x), std::numeric_limits<float>::infinity());
    else
      EXPECT_EQ(std::fabs(static_cast<double>(x)), value_of<TypeParam>(magnitude));
  }
}

TYPED_TEST(Float16Test, EveryValueRoundTrips) {
  for (int i = 0; i < 0x10000; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const uint16_t back = TypeParam::from(TypeParam{bits}).bits;
    const uint16_t quiet = 1 << (Layout<TypeParam>::kFraction - 1);
    const bool nan = (bits & 0x7FFF) > kInfinity<TypeParam>;
    EXPECT_EQ(back, nan ? bits | quiet : bits);
  }
}

TYPED_TEST(Float16Test, BoundariesRoundToTheNearest) {
  // Both ends and the midpoint of every interval between two values, and the floats next to them.
  for (uint16_t bits = 0; bits < kInfinity<TypeParam>; ++bits) {
    const double low = value_of<TypeParam>(bits);
    const double high = value_of<TypeParam>(static_cast<uint16_t>(bits + 1));
    for (const double point : {low, (low + high) / 2}) {
      const float x = static_cast<float>(point);
      const float far = std::numeric_limits<float>::infinity();
      for (const float beside : {x, std::nextafter(x, -far), std::nextafter(x, far)}) {
        expect_nearest<TypeParam>(beside);
        expect_nearest<TypeParam>(-beside);
      }
    }
  }
  for (const float x :
       {65519.9f, 65520.0f, 65536.0f, 1e30f, 3.39e38f, std::numeric_limits<float>::max(),
        std::numeric_limits<float>::infinity(), std::numeric_limits<float>::denorm_min()})
    for (const float signed_x : {x, -x}) expect_nearest<TypeParam>(signed_x);
}

TYPED_TEST(Float16Test, RandomFloatsRoundToTheNearest) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(x)) expect_nearest<TypeParam>(x);
    // Magnitudes in the range of Float16, which few of the floats above have.
    expect_nearest<TypeParam>(std::ldexp(static_cast<float>(random()), -32 - i % 24 + i % 7 * 3));
  }
}

TYPED_TEST(Float16Test, BoundariesAmongDoublesRoundOnce) {
  // Points closer to a midpoint than a float can represent: rounding to float first would give
  // ties.
  constexpr double kFar = std::numeric_limits<double>::infinity();
  for (uint16_t bits = 0; bits < kInfinity<TypeParam>; ++bits) {
    const double low = value_of<TypeParam>(bits);
    const double high = value_of<TypeParam>(static_cast<uint16_t>(bits + 1));
    const double middle = (low + high) / 2, little = (high - low) * 0x1p-30;
    for (const double x : {low, std::nextafter(low, kFar), middle, middle - little, middle + little,
                           std::nextafter(middle, 0), std::nextafter(middle, kFar)}) {
      expect_nearest<TypeParam>(x);
      expect_nearest<TypeParam>(-x);
    }
  }
}

TYPED_TEST(Float16Test, DoublesBeyondFloatsAreInfiniteOrZero) {
  using Limits = std::numeric_limits<double>;
  for (const double x :
       {0.0, Limits::denorm_min(), Limits::min(), 0x1p-149, 0x1p-150, 0x1.8p-126, 0x1.fffffffp-127,
        65519.999999999, 65520.0, 0x1.fffffep127, 0x1.feffffffffffp127, 0x1.ffp127, 0x1p128,
        Limits::max(), Limits::infinity()}) {
    expect_nearest<TypeParam>(x);
    expect_nearest<TypeParam>(-x);
  }
}

TYPED_TEST(Float16Test, RandomDoublesRoundToTheNearest) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const double x = std::bit_cast<double>(random());
    if (!std::isnan(x)) expect_nearest<TypeParam>(x);
    // Magnitudes in the range of Float16, and others in the range of BFloat16 only.
    const auto whole = static_cast<double>(random());
    expect_nearest<TypeParam>(std::ldexp(whole, -64 - i % 28 + i % 7 * 3));
    expect_nearest<TypeParam>(std::ldexp(whole, -64 - i % 140 + i % 11 * 13));
  }
}

TYPED_TEST(Float16Test, NanOfADoubleStaysNanAndBecomesQuiet) {
  constexpr uint16_t kQuiet = 1 << (Layout<TypeParam>::kFraction - 1);
  for (const uint64_t bits : {0x7FF0000000000001u, 0x7FF7FFFFFFFFFFFFu, 0x7FF8000000000000u,
                              0x7FFFFFFFFFFFFFFFu, 0xFFF0000000000001u}) {
    const TypeParam nan = TypeParam::from(std::bit_cast<double>(bits));
    EXPECT_GT(nan.bits & 0x7FFF, kInfinity<TypeParam>);
    EXPECT_TRUE(nan.bits & kQuiet);
    EXPECT_EQ(nan.bits >> 15, bits >> 63);
  }
}

TYPED_TEST(Float16Test, NanStaysNanAndBecomesQuiet) {
  constexpr uint16_t kQuiet = 1 << (Layout<TypeParam>::kFraction - 1);
  for (const uint32_t bits : {0x7F800001u, 0x7FBFFFFFu, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u}) {
    const TypeParam nan = TypeParam::from(std::bit_cast<float>(bits));
    EXPECT_GT(nan.bits & 0x7FFF, kInfinity<TypeParam>);
    EXPECT_TRUE(nan.bits & kQuiet);
    EXPECT_EQ(nan.bits >> 15, bits >> 31);
  }
}

TYPED_TEST(Float16Test, ConvertsInConstantExpressions) {
  static_assert(TypeParam::from(1.5f) == 1.5f && TypeParam::from(1.5) == 1.5f);
  static_assert(TypeParam::from(0x1p-130f) == (std::is_same_v<TypeParam, Float16> ? 0 : 0x1p-130f));
  static_assert(std::is_trivially_copyable_v<TypeParam> && sizeof(TypeParam) == 2);
}

TEST(Float16, KnownBits) {
  EXPECT_EQ(BFloat16::from(1).bits, 0x3F80);
  EXPECT_EQ(Float16::from(1).bits, 0x3C00);
  EXPECT_EQ(Float16::from(-2).bits, 0xC000);
  EXPECT_EQ(Float16::from(65504).bits, 0x7BFF);
  EXPECT_EQ(Float16::from(0x1p-24f).bits, 1);
  EXPECT_EQ(Float16::from(0x1p-25f).bits, 0);  // a tie, and 0 is even
  EXPECT_EQ(Float16::from(0x1p-25 + 0x1p-60).bits, 1);
  EXPECT_EQ(Float16::from(1 + 0x1p-11).bits, 0x3C00);
  EXPECT_EQ(Float16::from(1 + 0x1p-11 + 0x1p-40).bits, 0x3C01);
  EXPECT_EQ(Float16::from(1 + 0x3p-11 - 0x1p-40).bits, 0x3C01);
  EXPECT_EQ(Float16::from(65519.999999999).bits, 0x7BFF);
  EXPECT_EQ(BFloat16::from(1 + 0x1p-8 + 0x1p-40).bits, 0x3F81);
  EXPECT_EQ(BFloat16::from(0x1.ffp127 - 0x1p80).bits, 0x7F7F);
}

TEST(Float16, TensorsKnowTheirDtype) {
  BFloat16 b[2] = {};
  Float16 h[2] = {};
  EXPECT_EQ(TensorView(b, {2}).dtype, DType::bf16);
  EXPECT_EQ(TensorView(h, {2}).dtype, DType::f16);
  Tensor t(DType::f16, {3});
  t.values<Float16>()[2] = Float16::from(0.5f);
  EXPECT_EQ(t.values<Float16>()[2], 0.5f);
}

}  // namespace
}  // namespace rapt

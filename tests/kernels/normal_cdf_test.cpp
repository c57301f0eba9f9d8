// The normal distribution function and its density on every instruction set: errors as
// simd/plain.h states them, and special values. The exact results come from erfcl and expl. Those
// of floats are compared with plain loops of floats, too: errors may be twice as large.
//
// This file is compiled once per instruction set with RAPT_ISA_HEADER, where it wraps the word in
// functions on arrays, and once without, where it is the test.
#include <cstdint>

namespace rapt {

// y = Phi(x), alone and beside the density, and y = density(x); count is a multiple of the lanes.
template <class E>
struct NormalWords {
  using Function = void (*)(const E* x, E* y, int64_t count);
  Function cdf, cdf_beside_density, density;
};
struct AllNormalWords {
  NormalWords<float> f32;
  NormalWords<double> f64;
};

}  // namespace rapt

#if defined(RAPT_ISA_HEADER)
#include RAPT_ISA_HEADER

namespace rapt::RAPT_ISA {
namespace {

template <class V>
NormalWords<typename V::Element> normal_words() {
  using E = typename V::Element;
  return {[](const E* x, E* y, int64_t count) {
            for (int64_t i = 0; i < count; i += V::kLanes) store(y + i, normal_cdf(V::load(x + i)));
          },
          [](const E* x, E* y, int64_t count) {
            for (int64_t i = 0; i < count; i += V::kLanes) {
              V density;
              store(y + i, normal_cdf(V::load(x + i), density));
            }
          },
          [](const E* x, E* y, int64_t count) {
            for (int64_t i = 0; i < count; i += V::kLanes) {
              V density;
              normal_cdf(V::load(x + i), density);
              store(y + i, density);
            }
          }};
}

}  // namespace

AllNormalWords all_normal_words() { return {normal_words<F>(), normal_words<D>()}; }

}  // namespace rapt::RAPT_ISA

#else
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "kernels/ulp.h"
#include "rapt/instruction_sets.h"

#define RAPT_X(isa)                    \
  namespace rapt::isa_##isa {          \
    AllNormalWords all_normal_words(); \
  }
#include "rapt_vocabularies.inc"
#undef RAPT_X

namespace rapt {
namespace {

const AllNormalWords& chosen_words() {
  static const AllNormalWords chosen = [] {
    for (const InstructionSet& set : instruction_sets()) {
      if (!set.chosen) continue;
#define RAPT_X(isa) \
  if (std::string(set.name) == #isa) return isa_##isa::all_normal_words();
#include "rapt_vocabularies.inc"
#undef RAPT_X
    }
    return AllNormalWords{};
  }();
  return chosen;
}

// x = h + l, where h^2 is exact, because a rounded x^2 would cost more than an ulp of a double.
long double exact_density(long double x) {
  const long double h = static_cast<float>(x), l = x - h;
  const long double root = 0.398942280401432677939946059934L;  // 1 / sqrt(2 pi)
  return root * std::exp(-h * h / 2) * std::exp(-l * (x + h) / 2);
}

// erfc at a rounded t = -x / sqrt 2, and the change of its value over what the rounding lost.
long double exact_cdf(long double x) {
  const long double high = 0.707106781186547524400844362105L;  // sqrt(1/2) rounded
  const long double low = std::fma(-high, high, 0.5L) / (2 * high);
  const long double t = -x * high;
  if (std::fabs(x) < 1 || std::fabs(x) > 50) return std::erfc(t) / 2;
  const long double lost = std::fma(-x, high, -t) - x * low;
  return std::erfc(t) / 2 - lost * std::sqrt(2.0L) * exact_density(x);
}

template <class E>
class NormalCdf : public testing::Test {
 public:
  // Results are normal numbers for -kEnd <= x; half the density is one for |x| <= kEnd.
  static constexpr E kEnd = sizeof(E) == sizeof(float) ? E(12.8) : E(37.4);
  static const NormalWords<E>& chosen() {
    if constexpr (sizeof(E) == sizeof(float))
      return chosen_words().f32;
    else
      return chosen_words().f64;
  }
  static double worst(E from, E to) {
    return worst_ulp<E>(
        "Phi", chosen().cdf, [](Wide<E> x) { return static_cast<Wide<E> >(exact_cdf(x)); }, from,
        to);
  }
  static double worst_density(E from, E to) {
    return worst_ulp<E>(
        "density", chosen().density,
        [](Wide<E> x) { return static_cast<Wide<E> >(exact_density(x)); }, from, to);
  }
  static E cdf(E x) { return one(chosen().cdf, x); }
  static E density(E x) { return one(chosen().density, x); }

 private:
  static E one(typename NormalWords<E>::Function function, E x) {
    E all[16] = {}, y[16];
    all[0] = x;
    function(all, y, words_of<E>().lanes);
    return y[0];
  }
};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(NormalCdf, Elements, );

using NormalCdfOfDouble = NormalCdf<double>;

TEST_F(NormalCdfOfDouble, FromMinusOneUp) {
  using Limits = std::numeric_limits<double>;
  EXPECT_LE(worst(-Limits::min(), -1), 2.0);
  EXPECT_LE(worst(-0.01, -1), 2.0);
  EXPECT_LE(worst(0.01, 9), 2.0);
  EXPECT_LE(worst(Limits::min(), Limits::max()), 2.0);
}

TEST_F(NormalCdfOfDouble, LowerTail) { EXPECT_LE(worst(-1, -kEnd), 6.0); }

// The implementation changes from one method to the other at 1.
TEST_F(NormalCdfOfDouble, WhereTheMethodChanges) {
  EXPECT_LE(worst(-0.98, -1.02), 6.0);
  EXPECT_LE(worst(0.98, 1.02), 2.0);
}

TEST_F(NormalCdfOfDouble, Density) {
  EXPECT_LE(worst_density(std::numeric_limits<double>::min(), kEnd), 3.5);
  EXPECT_LE(worst_density(0.01, kEnd), 3.5);
  EXPECT_LE(worst_density(-0.01, -kEnd), 3.5);
}

// Calls f(x, Phi, Phi beside the density, density) for floats from -40 to 40.
template <class Function>
void for_each_float(const Function& f) {
  constexpr int64_t kBatch = 4096;
  for (const float sign : {-1.0f, 1.0f})
    for (uint32_t bits = 0; bits < std::bit_cast<uint32_t>(40.0f);) {
      float x[kBatch], cdf[kBatch], beside[kBatch], density[kBatch];
      for (float& one : x) one = sign * std::bit_cast<float>(bits), bits += 997;
      chosen_words().f32.cdf(x, cdf, kBatch);
      chosen_words().f32.cdf_beside_density(x, beside, kBatch);
      chosen_words().f32.density(x, density, kBatch);
      for (int64_t i = 0; i < kBatch; ++i) f(x[i], cdf[i], beside[i], density[i]);
    }
}

// Errors of Phi, of GELU x Phi and of the density: of the words, and of plain loops of floats.
struct FloatErrors {
  double cdf = 0, gelu = 0, density = 0;

  void add(float x, float of_cdf, float of_density) {
    const double phi = std::erfc(-x / std::sqrt(2.0)) / 2;
    const double exact_density = std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
    cdf = std::fmax(cdf, std::fabs(of_cdf - phi));
    gelu = std::fmax(gelu, std::fabs(double{x} * of_cdf - x * phi) / std::fmax(1, std::fabs(x)));
    density = std::fmax(density, std::fabs(of_density - exact_density));
  }
};

TEST(NormalCdfOfFloat, IsAsGoodAsPlainLoops) {
  FloatErrors words, beside, plain;
  for_each_float([&](float x, float cdf, float cdf_beside_density, float density) {
    words.add(x, cdf, density);
    beside.add(x, cdf_beside_density, density);
    plain.add(x, 0.5f * (1 + std::erf(x * 0.70710678f)), 0.39894228f * std::exp(-0.5f * x * x));
  });
  for (const FloatErrors& e : {words, beside}) {
    std::printf("Phi %.2e (plain %.2e), GELU %.2e (%.2e), density %.2e (%.2e)\n", e.cdf, plain.cdf,
                e.gelu, plain.gelu, e.density, plain.density);
    EXPECT_LE(e.cdf, 2 * plain.cdf);
    EXPECT_LE(e.gelu, 2 * plain.gelu);
    EXPECT_LE(e.density, 2 * plain.density);
    EXPECT_LE(e.cdf, 1e-7);
    EXPECT_LE(e.density, 5e-8);
  }
}

// It never decreases but for roundings, and is never negative.
TEST(NormalCdfOfFloat, LowerTail) {
  for (const auto cdf : {chosen_words().f32.cdf, chosen_words().f32.cdf_beside_density}) {
    float before = 0.5f;
    for (float x = 0; x < 40; x += 0x1p-10f) {
      float all[16] = {-x}, y[16];
      cdf(all, y, words_of<float>().lanes);
      EXPECT_LE(y[0], before * (1 + 0x1p-20f)) << x;
      EXPECT_GE(y[0], 0) << x;
      EXPECT_FALSE(std::signbit(y[0])) << x;
      before = y[0];
    }
    EXPECT_EQ(before, 0);
  }
}

// Both ways of Phi have the special values.
TEST(NormalCdfOfFloat, SpecialValuesBesideTheDensity) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float x[16] = {0, -0.0f, kInf, -kInf, 1e30f, -1e30f, std::nanf(""), 0};
  float y[16];
  chosen_words().f32.cdf_beside_density(x, y, 16);
  const float expected[] = {0.5f, 0.5f, 1, 0, 1, 0};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y[i], expected[i]) << x[i];
  EXPECT_TRUE(std::isnan(y[6]));
}

TYPED_TEST(NormalCdf, SpecialValues) {
  using E = TypeParam;
  using Limits = std::numeric_limits<E>;
  const E inf = Limits::infinity(), at_0 = static_cast<E>(0.39894228040143268);
  for (const E zero : {E(0), E(-0.0), Limits::denorm_min(), -Limits::denorm_min()}) {
    EXPECT_EQ(this->cdf(zero), E(0.5));
    EXPECT_EQ(this->density(zero), at_0);
  }
  for (const E big : {E(40), Limits::max(), inf}) {
    EXPECT_EQ(this->cdf(big), 1);
    EXPECT_EQ(this->cdf(-big), 0);
    EXPECT_FALSE(std::signbit(this->cdf(-big)));
    EXPECT_EQ(this->density(big), 0);
    EXPECT_EQ(this->density(-big), 0);
  }
  for (const E nan : {Limits::quiet_NaN(), -Limits::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(this->cdf(nan)));
    EXPECT_TRUE(std::isnan(this->density(nan)));
  }
}

// Below the smallest normal number, results are denormal or 0.
TEST_F(NormalCdfOfDouble, UnderflowsToZero) {
  using Limits = std::numeric_limits<double>;
  for (double x = kEnd; x < 40; x += 0.0625) {
    const double exact = static_cast<double>(exact_cdf(-x));
    EXPECT_GE(cdf(-x), 0);
    EXPECT_LE(cdf(-x), exact < Limits::min() ? Limits::min() : exact * 1.00001);
    EXPECT_GE(density(x), 0);
    EXPECT_LE(density(x), static_cast<double>(exact_density(x)) * 2 + Limits::min());
    EXPECT_EQ(cdf(x), 1);
  }
}

TYPED_TEST(NormalCdf, OppositeArgumentsAddToOne) {
  constexpr TypeParam kEpsilon = std::numeric_limits<TypeParam>::epsilon();
  for (int i = 0; i < 4000; ++i) {
    const TypeParam x = static_cast<TypeParam>(i) / 173;
    EXPECT_LE(this->cdf(x), 1);
    EXPECT_NEAR(this->cdf(x) + this->cdf(-x), 1, kEpsilon);
    EXPECT_EQ(this->density(x), this->density(-x));
  }
}

}  // namespace
}  // namespace rapt
#endif

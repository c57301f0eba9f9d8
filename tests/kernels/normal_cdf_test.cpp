// The normal distribution function and its density on every instruction set: errors as
// simd/scalar.h states them, and special values. The exact results come from erfcl and expl.
//
// This file is compiled once per instruction set with RAPT_ISA_HEADER, where it wraps the word in
// functions on arrays, and once without, where it is the test.
#include <cstdint>

namespace rapt {

// y = Phi(x), and y = density(x); count is a multiple of the lanes.
template <class E>
struct NormalWords {
  using Function = void (*)(const E* x, E* y, int64_t count);
  Function cdf, density;
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

#include <cmath>
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

TYPED_TEST(NormalCdf, FromMinusOneUp) {
  using Limits = std::numeric_limits<TypeParam>;
  EXPECT_LE(this->worst(-Limits::min(), TypeParam(-1)), 2.0);
  EXPECT_LE(this->worst(TypeParam(-0.01), TypeParam(-1)), 2.0);
  EXPECT_LE(this->worst(TypeParam(0.01), TypeParam(9)), 2.0);
  EXPECT_LE(this->worst(Limits::min(), Limits::max()), 2.0);
}

TYPED_TEST(NormalCdf, LowerTail) { EXPECT_LE(this->worst(TypeParam(-1), -this->kEnd), 6.0); }

// The implementation changes from one method to the other at 1.
TYPED_TEST(NormalCdf, WhereTheMethodChanges) {
  EXPECT_LE(this->worst(TypeParam(-0.98), TypeParam(-1.02)), 6.0);
  EXPECT_LE(this->worst(TypeParam(0.98), TypeParam(1.02)), 2.0);
}

TYPED_TEST(NormalCdf, Density) {
  const TypeParam tiny = std::numeric_limits<TypeParam>::min();
  EXPECT_LE(this->worst_density(tiny, this->kEnd), 3.5);
  EXPECT_LE(this->worst_density(TypeParam(0.01), this->kEnd), 3.5);
  EXPECT_LE(this->worst_density(TypeParam(-0.01), -this->kEnd), 3.5);
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
TYPED_TEST(NormalCdf, UnderflowsToZero) {
  using Limits = std::numeric_limits<TypeParam>;
  for (TypeParam x = this->kEnd; x < 40; x += TypeParam(0.0625)) {
    const TypeParam exact = static_cast<TypeParam>(exact_cdf(-x));
    EXPECT_GE(this->cdf(-x), 0);
    EXPECT_LE(this->cdf(-x), exact < Limits::min() ? Limits::min() : exact * TypeParam(1.00001));
    EXPECT_GE(this->density(x), 0);
    EXPECT_LE(this->density(x), static_cast<TypeParam>(exact_density(x)) * 2 + Limits::min());
    EXPECT_EQ(this->cdf(x), 1);
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

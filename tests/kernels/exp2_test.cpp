// 2^x is within 1 ulp on every instruction set. The widest set of a release build tries every float
// that a normaliser can pass, the others try a sample (CMakeLists.txt). Special values are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/ulp.h"

namespace rapt {
namespace {

template <class E>
class Exp2 : public testing::Test {
 public:
  static constexpr int kLowest = std::numeric_limits<E>::min_exponent - 1;   // -126, -1022
  static constexpr int kHighest = std::numeric_limits<E>::max_exponent - 1;  // 127, 1023
  static double worst(E from, E to) {
    return worst_ulp<E>(
        "exp2", words_of<E>().exp2, [](Wide<E> x) { return std::exp2(x); }, from, to);
  }
  static E one(E x) {
    E all[16] = {}, y[16];
    all[0] = x;
    words_of<E>().exp2(all, y, words_of<E>().lanes);
    return y[0];
  }
};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(Exp2, Elements, );

// For |x| below epsilon / 8 the result is 1 to the last bit.
TYPED_TEST(Exp2, WithinOneUlpBelowZero) {
  const TypeParam tiny = std::numeric_limits<TypeParam>::epsilon() / 8;
  EXPECT_LE(this->worst(-tiny, this->kLowest), 1.0);
}

TYPED_TEST(Exp2, WithinOneUlpAboveZero) {
  const TypeParam tiny = std::numeric_limits<TypeParam>::epsilon() / 8;
  EXPECT_LE(this->worst(tiny, this->kHighest), 1.0);
}

// Doubles are too many to try each. The sample is even in the bits, so most of it has the largest
// exponents of the range.
TYPED_TEST(Exp2, WithinOneUlpNearZero) {
  EXPECT_LE(this->worst(TypeParam(-0.25), TypeParam(-2)), 1.0);
  EXPECT_LE(this->worst(TypeParam(0.25), TypeParam(2)), 1.0);
}

TYPED_TEST(Exp2, SpecialValues) {
  using E = TypeParam;
  using Limits = std::numeric_limits<E>;
  const E lowest = this->kLowest, inf = Limits::infinity();
  EXPECT_EQ(this->one(0), 1);
  EXPECT_EQ(this->one(-0.0), 1);
  EXPECT_EQ(this->one(-inf), 0);
  EXPECT_EQ(this->one(1), 2);
  EXPECT_EQ(this->one(lowest), Limits::min());
  EXPECT_EQ(this->one(-Limits::denorm_min()), 1);
  // The result is denormal (gradual underflow) or 0.
  EXPECT_LE(this->one(lowest - 1), Limits::min() / 2);
  EXPECT_LE(this->one(lowest - 24), Limits::min() / 4);
  EXPECT_EQ(this->one(lowest * 2), 0);
  EXPECT_EQ(this->one(Limits::lowest()), 0);
  EXPECT_EQ(this->one(E(-1e30)), 0);
}

TYPED_TEST(Exp2, IntegersAreExact) {
  for (int n = this->kLowest; n <= this->kHighest; ++n)
    EXPECT_EQ(this->one(TypeParam(n)), std::ldexp(TypeParam(1), n)) << n;
}

TYPED_TEST(Exp2, EveryNanStaysOne) {
  using E = TypeParam;
  const Bits<E> infinity = std::bit_cast<Bits<E>>(std::numeric_limits<E>::infinity());
  const Bits<E> sign = Bits<E>(1) << (8 * sizeof(E) - 1);
  // Sets each bit of the payload alone: an implementation that uses the lowest bits must not turn a
  // NaN into a number.
  for (Bits<E> payload = 1; payload < (Bits<E>(1) << (std::numeric_limits<E>::digits - 1));
       payload <<= 1)
    for (const Bits<E> bits : {infinity | payload, infinity | payload | sign})
      EXPECT_TRUE(std::isnan(this->one(std::bit_cast<E>(bits)))) << bits;
}

TYPED_TEST(Exp2, NoTinyNegativeGivesMoreThanOne) {
  for (int i = 0; i < 16; ++i) {
    const TypeParam y = this->one(-std::ldexp(TypeParam(1), -20 - 4 * i));
    EXPECT_LE(y, 1);
    EXPECT_GE(y, TypeParam(0.999999));
  }
}

}  // namespace
}  // namespace rapt

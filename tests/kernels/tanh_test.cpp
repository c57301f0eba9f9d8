// The hyperbolic tangent is within 1.5 ulp on every instruction set, also near 0. It is odd and
// never beyond +-1, and special values are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/ulp.h"

namespace rapt {
namespace {

template <class E>
class Tanh : public testing::Test {
 public:
  static double worst(E from, E to) {
    return worst_ulp<E>(
        "tanh", words_of<E>().tanh, [](Wide<E> x) { return std::tanh(x); }, from, to);
  }
  static E one(E x) {
    E all[16] = {}, y[16];
    all[0] = x;
    words_of<E>().tanh(all, y, words_of<E>().lanes);
    return y[0];
  }
};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(Tanh, Elements, );

TYPED_TEST(Tanh, OfEveryMagnitude) {
  using Limits = std::numeric_limits<TypeParam>;
  EXPECT_LE(this->worst(Limits::min(), Limits::max()), 1.5);
  EXPECT_LE(this->worst(-Limits::min(), -Limits::max()), 1.5);
}

// The range where the curve bends, and where the implementation changes from one method to the
// other.
TYPED_TEST(Tanh, BetweenItsEnds) {
  EXPECT_LE(this->worst(TypeParam(0.01), TypeParam(0.9)), 1.5);
  EXPECT_LE(this->worst(TypeParam(0.9), TypeParam(1.1)), 1.5);
  EXPECT_LE(this->worst(TypeParam(1.1), TypeParam(25)), 1.5);
}

TYPED_TEST(Tanh, SpecialValues) {
  using E = TypeParam;
  using Limits = std::numeric_limits<E>;
  for (const E big : {E(30), Limits::max(), Limits::infinity()}) {
    EXPECT_EQ(this->one(big), 1);
    EXPECT_EQ(this->one(-big), -1);
  }
  EXPECT_EQ(this->one(0), 0);
  EXPECT_FALSE(std::signbit(this->one(0)));
  EXPECT_TRUE(std::signbit(this->one(-0.0)));
  EXPECT_EQ(this->one(Limits::min()), Limits::min());
  EXPECT_EQ(this->one(-Limits::denorm_min()), -Limits::denorm_min());
  EXPECT_TRUE(std::isnan(this->one(Limits::quiet_NaN())));
  EXPECT_TRUE(std::isnan(this->one(-Limits::quiet_NaN())));
}

TYPED_TEST(Tanh, IsOddAndStaysWithinOne) {
  for (int i = 0; i < 4000; ++i) {
    const TypeParam x = static_cast<TypeParam>(i) / 173;
    const TypeParam y = this->one(x);
    EXPECT_EQ(this->one(-x), -y);
    EXPECT_LE(y, 1);
  }
}

}  // namespace
}  // namespace rapt

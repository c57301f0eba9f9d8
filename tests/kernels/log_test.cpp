// The natural logarithm is within 1 ulp, on every instruction set; special values are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/ulp.h"

namespace rapt {
namespace {

template <class E>
class Log : public testing::Test {
 public:
  static double worst(E from, E to) {
    return worst_ulp<E>(
        "log", words_of<E>().log, [](Wide<E> x) { return std::log(x); }, from, to);
  }
  static E one(E x) {
    E all[16], y[16];
    for (E& each : all) each = 3;
    all[0] = x;
    words_of<E>().log(all, y, words_of<E>().lanes);
    return y[0];
  }
};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(Log, Elements, );

TYPED_TEST(Log, OfEveryMagnitude) {
  using Limits = std::numeric_limits<TypeParam>;
  EXPECT_LE(this->worst(Limits::min(), Limits::max()), 1.0);
}

// Sums of weights of a row with up to a million keys, and arguments near 1, where exponents cancel.
TYPED_TEST(Log, OfSumsOfWeights) { EXPECT_LE(this->worst(TypeParam(0.25), TypeParam(1e9)), 1.0); }

TYPED_TEST(Log, NearOneWhereTheResultVanishes) {
  EXPECT_LE(this->worst(TypeParam(0.999), TypeParam(1.001)), 1.0);
}

TYPED_TEST(Log, OfDenormalNumbers) {
  using Limits = std::numeric_limits<TypeParam>;
  EXPECT_LE(this->worst(Limits::denorm_min(), Limits::min()), 1.0);
}

TYPED_TEST(Log, SpecialValues) {
  using E = TypeParam;
  using Limits = std::numeric_limits<E>;
  const E inf = Limits::infinity();
  EXPECT_EQ(this->one(1), 0);
  EXPECT_FALSE(std::signbit(this->one(1)));
  EXPECT_EQ(this->one(0), -inf);
  EXPECT_EQ(this->one(-0.0), -inf);
  EXPECT_EQ(this->one(inf), inf);
  EXPECT_TRUE(std::isnan(this->one(Limits::quiet_NaN())));
  EXPECT_TRUE(std::isnan(this->one(-Limits::quiet_NaN())));
  EXPECT_TRUE(std::isnan(this->one(-1)));
  EXPECT_TRUE(std::isnan(this->one(-Limits::denorm_min())));
  EXPECT_TRUE(std::isnan(this->one(-inf)));
}

}  // namespace
}  // namespace rapt

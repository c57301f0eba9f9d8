// Numbers that are not finite, huge arguments of activations, sums of nothing, and calls that are
// stopped.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "products/product_problem.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace laws {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void spoil(Random& random, const TensorView& view) {
  if (view.count() == 0) return;
  const Dims place{random.between(0, view.shape[0] - 1), random.between(0, view.shape[1] - 1)};
  set(view, place, random.pick({std::nan(""), kInfinity, -kInfinity}));
}

// NaN, infinities with their signs, and finite numbers stand where the plain loop has them.
TEST(ProductDefects, NumbersThatAreNotFinite) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(600) && !HasFailure(); ++n) {
    const Product product =
        random.pick({Product::forward, Product::input_gradient, Product::weight_gradient});
    const int64_t sizes[] = {random.between(1, 30), random.between(1, 300), random.between(1, 40)};
    const int64_t first = random.between(0, 2), step = random.between(1, 2);
    const DrawnProduct p(random, product, sizes[first], sizes[(first + step) % 3],
                         sizes[(first + 2 * step) % 3], random.chance(0.3));
    for (int i = 0; i < 3; ++i)
      spoil(random, random.pick({p.x.view(), p.weight.view(), p.y.view()}));
    SCOPED_TRACE(p.text());
    const std::vector<check::Expectation> expected = expectations_of(p);
    p.call();
    const std::vector<const Placed*> outputs = p.outputs();
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::vector<double> got = values_of(*outputs[i]);
      ASSERT_EQ(got.size(), expected[i].truth.size());
      for (size_t j = 0; j < got.size(); ++j) {
        const auto truth = static_cast<double>(expected[i].truth[j]);
        const bool same = std::isfinite(truth) ? std::isfinite(got[j])
                          : std::isnan(truth)  ? std::isnan(got[j])
                                               : got[j] == truth;
        EXPECT_TRUE(same) << "output " << i << " [" << j << "] is " << got[j] << " instead of "
                          << truth;
      }
    }
  }
}

// activation(z) of one row, by a weight that is the identity.
template <class E>
std::vector<double> activated(rapt::Activation activation, const std::vector<E>& z) {
  const auto n = static_cast<int64_t>(z.size());
  std::vector<E> identity(z.size() * z.size(), E(0)), y(z.size());
  for (size_t i = 0; i < z.size(); ++i) identity[i * z.size() + i] = 1;
  rapt::multiply({z.data(), {1, n}}, {identity.data(), {n, n}}, {y.data(), {1, n}},
                 {.activation = activation});
  return {y.begin(), y.end()};
}

template <class E>
void expect_limits(E large) {
  for (const rapt::Activation a : {rapt::Activation::relu, rapt::Activation::gelu,
                                   rapt::Activation::gelu_tanh, rapt::Activation::silu}) {
    SCOPED_TRACE(static_cast<int>(a));
    const std::vector<double> got = activated<E>(a, {large, -large, 0, 1, -1});
    EXPECT_EQ(got[0], static_cast<double>(large));
    EXPECT_NEAR(got[1], 0, 1e-37);
    EXPECT_EQ(got[2], 0);
    EXPECT_GT(got[3], 0.7);
    EXPECT_GT(got[4], -0.3);
  }
}

TEST(ProductDefects, ActivationsOfLargeNumbers) {
  for (const float large : {100.0f, 1e4f, 1e18f, 1e25f, 3e38f}) expect_limits(large);
  for (const double large : {1e3, 1e100, 1e160, 1.7e308}) expect_limits(large);
}

TEST(ProductDefects, SumsOfNothing) {
  float bias[] = {1, -2, 3}, y[6], d_weight[] = {1, 2}, d_bias[] = {5, 6};
  std::fill_n(y, 6, 77.0f);
  const TensorView none(static_cast<float*>(nullptr), {2, 0}),
      no_weight(static_cast<float*>(nullptr), {3, 0}), result(y, {2, 3});
  rapt::multiply(none, no_weight, result,
                 {.bias = {bias, {3}}, .activation = rapt::Activation::relu});
  EXPECT_EQ(std::vector<float>(y, y + 6), (std::vector<float>{1, 0, 3, 1, 0, 3}));
  rapt::multiply(none, no_weight, result, {.add = true});
  EXPECT_EQ(std::vector<float>(y, y + 6), (std::vector<float>{1, 0, 3, 1, 0, 3}));
  rapt::multiply_gradient(none, TensorView(static_cast<float*>(nullptr), {0, 3}), result);
  EXPECT_EQ(std::vector<float>(y, y + 6), std::vector<float>(6, 0));
  const TensorView no_rows(static_cast<float*>(nullptr), {0, 2}),
      no_x(static_cast<float*>(nullptr), {0, 1});
  rapt::add_weight_gradient(no_rows, no_x, {d_weight, {2, 1}}, {d_bias, {2}});
  EXPECT_EQ(d_weight[0], 1);
  EXPECT_EQ(d_weight[1], 2);
  EXPECT_EQ(d_bias[0], 5);
  EXPECT_EQ(d_bias[1], 6);
}

TEST(ProductDefects, NeitherGradientIsWanted) {
  const float d_y[6] = {}, x[4] = {};
  EXPECT_NO_THROW(rapt::add_weight_gradient({d_y, {2, 3}}, {x, {2, 2}}, {}));
}

TEST(ProductDefects, CancelledBetweenTasks) {
  Random random(base_seed() + 1);
  const DrawnProduct p(random, Product::forward, 20, 30, 2000, false);
  rapt::CancelToken token;
  Context context;
  context.threads = 1;
  context.cancel = &token;
  struct Reports {
    rapt::CancelToken& token;
    int count = 0;
    double last = 0;
  } reports{token};
  context.progress = {[](void* user, double fraction) {
                        auto& r = *static_cast<Reports*>(user);
                        ++r.count, r.last = fraction;
                        r.token.cancel();
                      },
                      &reports};
  expect_error(rapt::ErrorCode::cancelled, {}, [&] { p.call(context); });
  EXPECT_EQ(reports.count, 1);
  EXPECT_GT(reports.last, 0);
  EXPECT_LT(reports.last, 1);
}

TEST(ProductDefects, AnExecutorThatThrows) {
  Random random(base_seed() + 2);
  const DrawnProduct p(random, Product::input_gradient, 300, 400, 500, false);
  Throwing pool(1);
  Context context;
  context.executor = &pool;
  EXPECT_THROW(p.call(context), std::runtime_error);
}

}  // namespace
}  // namespace laws

#include "rapt/nn/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "memory/allocation_hooks.h"
#include "nn/gradient_check.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

// Gradients of these lengths: f32, but for the last, f64.
std::vector<nn::Parameter> with_gradients(const std::vector<int64_t>& lengths) {
  std::vector<nn::Parameter> all;
  for (const int64_t n : lengths) {
    const bool last = all.size() + 1 == lengths.size();
    all.push_back(nn::make_parameter(last ? DType::f64 : DType::f32, {n}));
    fill_normal(all.back().gradient, all.size());
  }
  return all;
}
std::vector<nn::Parameter*> pointers(std::vector<nn::Parameter>& parameters) {
  std::vector<nn::Parameter*> all;
  for (nn::Parameter& p : parameters) all.push_back(&p);
  return all;
}
std::vector<double> gradients_of(std::vector<nn::Parameter>& parameters) {
  std::vector<double> all;
  for (nn::Parameter& p : parameters)
    for (int64_t i = 0; i < p.gradient.count(); ++i)
      all.push_back(p.gradient.dtype() == DType::f64
                        ? p.gradient.values<double>()[static_cast<size_t>(i)]
                        : p.gradient.values<float>()[static_cast<size_t>(i)]);
  return all;
}
double plain_norm(const std::vector<double>& x) {
  long double sum = 0;
  for (const double a : x) sum += static_cast<long double>(a) * a;
  return static_cast<double>(std::sqrt(sum));
}

TEST(ClipTest, NormIsThatOfAllGradients) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{1}, {0}, {15, 16, 17}, {4095, 0, 4097, 3}, {70001, 2, 999}}) {
    auto parameters = with_gradients(lengths);
    const double expected = plain_norm(gradients_of(parameters));
    EXPECT_NEAR(nn::gradient_norm(pointers(parameters)), expected, 1e-14 * expected);
  }
  EXPECT_EQ(nn::gradient_norm({}), 0);
}

TEST(ClipTest, ScalesLargeGradients) {
  auto parameters = with_gradients({70001, 2, 999});
  const auto before = gradients_of(parameters);
  const double norm = plain_norm(before);
  EXPECT_NEAR(nn::clip_gradients(pointers(parameters), 3), norm, 1e-14 * norm);
  const auto after = gradients_of(parameters);
  const double factor = 3 / (norm + 1e-6);
  for (size_t i = 0; i < after.size(); ++i)
    ASSERT_NEAR(after[i], before[i] * factor, 2e-7 * std::abs(before[i] * factor)) << i;
  EXPECT_NEAR(plain_norm(after), 3, 1e-6);
}

TEST(ClipTest, LeavesSmallGradientsAndFrozenParametersAlone) {
  auto parameters = with_gradients({70, 2, 9});
  const double all = nn::gradient_norm(pointers(parameters));
  const auto before = gradients_of(parameters);
  EXPECT_EQ(nn::clip_gradients(pointers(parameters), 1.001 * all), all);
  EXPECT_EQ(nn::clip_gradients(pointers(parameters), HUGE_VAL), all);
  EXPECT_EQ(gradients_of(parameters), before);
  parameters[0].gradient = {};
  EXPECT_LT(nn::clip_gradients(pointers(parameters), 1e-3), all);
}

TEST(ClipTest, ANormThatIsNotFiniteChangesNothing) {
  for (const double bad : {double{NAN}, HUGE_VAL, 1e200}) {
    auto parameters = with_gradients({70, 2, 9});
    parameters[2].gradient.values<double>()[8] = bad;
    std::vector<double> before = gradients_of(parameters);
    const double norm = nn::clip_gradients(pointers(parameters), 1);
    EXPECT_EQ(std::isnan(norm), std::isnan(bad));
    EXPECT_FALSE(std::isfinite(norm));
    std::vector<double> after = gradients_of(parameters);
    EXPECT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(double)), 0);
  }
}

// One set of bits for all instruction sets, too, where gradients are f32.
TEST(ClipTest, BitsDependOnNoThreads) {
  check::Random random(1);
  const auto clipped = [](const Context& context, double& norm) {
    auto parameters = with_gradients({150001, 1, 70011, 5});
    parameters.pop_back();
    norm = nn::clip_gradients(pointers(parameters), 2, context);
    return gradients_of(parameters);
  };
  double norm = 0, other = 0;
  const auto expected = clipped({.threads = 1}, norm);
  for (const int threads : {0, 2, 5}) {
    EXPECT_EQ(clipped({.threads = threads}, other), expected);
    EXPECT_EQ(other, norm);
  }
  laws::for_each_executor(random, [&](const Context& context) {
    EXPECT_EQ(clipped(context, other), expected);
    EXPECT_EQ(other, norm);
  });
}

TEST(ClipTest, NormOfF32IsTheSameOnEverySet) {
  auto parameters = with_gradients({50021, 3});
  parameters.pop_back();
  auto values = parameters[0].gradient.values<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 1000) * 0.1f + static_cast<float>(i) * 1e-7f;
  EXPECT_EQ(nn::gradient_norm(pointers(parameters)), 0x1.93260069d5a21p+13);
}

TEST(ClipTest, Rejects) {
  auto parameters = with_gradients({70, 2});
  const auto before = gradients_of(parameters);
  for (const double bad : {-1.0, double{NAN}})
    expect_error(ErrorCode::argument, {"max_norm"},
                 [&] { nn::clip_gradients(pointers(parameters), bad); });
  expect_error(ErrorCode::argument, {"null"}, [&] {
    nn::Parameter* const none[] = {nullptr};
    nn::clip_gradients(none, 1);
  });
  CancelToken token;
  token.cancel();
  expect_error(ErrorCode::cancelled, {},
               [&] { nn::clip_gradients(pointers(parameters), 1, {.cancel = &token}); });
  EXPECT_EQ(gradients_of(parameters), before);
  parameters[1].gradient = Tensor(DType::bf16, {2});
  expect_error(ErrorCode::dtype, {"bf16"}, [&] { nn::clip_gradients(pointers(parameters), 1); });
}

TEST(ClipTest, AllocatesNothing) {
#if RAPT_ALLOCATION_HOOKS
  auto parameters = with_gradients({7000, 2});
  const auto all = pointers(parameters);
  nn::clip_gradients(all, 1, {.threads = 1});
  laws::start_counting();
  nn::clip_gradients(all, 0.5, {.threads = 1});
  EXPECT_EQ(laws::stop_counting().made, 0);
#else
  GTEST_SKIP() << "allocations cannot be counted here";
#endif
}

}  // namespace

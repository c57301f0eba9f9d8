// Cross-entropy and the mean squared error.
#include "rapt/nn/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "memory/allocation_hooks.h"
#include "nn/elements.h"
#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "rapt/nn/mse.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

struct CrossEntropyProblem {
  CrossEntropyProblem(std::vector<int64_t> rows, int64_t classes, DType dtype,
                      nn::CrossEntropyOptions o = {}, double spread = 2)
      : options(o),
        targets(drawn_tokens(rows, std::max<int64_t>(classes, 1), 2)),
        lse(DType::f64, Shape(rows)) {
    rows.push_back(classes);
    logits = normal(dtype, rows, 1, spread), d_logits = Tensor(dtype, Shape(rows));
  }
  double loss(const Context& context = {}) {
    double result = 0;
    Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
      result = cross_entropy(logits, targets, lse, run, options);
    });
    return result;
  }
  void gradient(double d_loss = 1, const Context& context = {}) {
    Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
      cross_entropy_gradient(logits, targets, lse, d_logits, run, options, d_loss);
    });
  }
  nn::CrossEntropyOptions options;
  Tensor targets, lse, logits, d_logits;
};

constexpr nn::CrossEntropyOptions kLossOptions[] = {
    {},
    {.label_smoothing = 0.1},
    {.ignore_index = 1},
    {.ignore_index = 0, .label_smoothing = 1, .reduction = nn::Reduction::sum},
    {.reduction = nn::Reduction::sum}};

TEST(CrossEntropy, GradientsAreCentralDifferences) {
  for (const nn::CrossEntropyOptions& options : kLossOptions)
    for (const int64_t classes : {1, 2, 5, 33, 700}) {
      CrossEntropyProblem p({2, 3}, classes, DType::f64, options);
      p.targets.values<int64_t>()[0] = classes - 1;
      if (options.ignore_index == 1 && classes < 2) p.targets.values<int64_t>()[1] = 1;
      if (classes == 1 && options.ignore_index == 0) continue;  // no row counts
      p.loss(), p.gradient(1.5);
      expect_gradients({{"logits", &p.logits, &p.d_logits}}, [&] { return 1.5 * p.loss(); });
    }
}

// The same in long double, without blocks.
long double plain_loss(const CrossEntropyProblem& p) {
  const std::vector<double> z = values_of(p.logits);
  const auto targets = p.targets.values<int64_t>();
  const size_t classes = targets.empty() ? 0 : z.size() / targets.size();
  long double sum = 0, count = 0;
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == p.options.ignore_index) continue;
    const double* row = z.data() + r * classes;
    long double most = row[0], powers = 0, all = 0;
    for (size_t c = 1; c < classes; ++c) most = std::max<long double>(most, row[c]);
    for (size_t c = 0; c < classes; ++c) powers += std::exp(row[c] - most), all += row[c];
    const long double s = p.options.label_smoothing;
    sum += most + std::log(powers) - (1 - s) * row[targets[r]] -
           s * all / static_cast<long double>(classes);
    ++count;
  }
  return p.options.reduction == nn::Reduction::mean ? sum / count : sum;
}

TEST(CrossEntropy, IsTheFormula) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const nn::CrossEntropyOptions& options : kLossOptions)
      for (const int64_t classes : {3, 17, 1024, 5003})
        for (const double spread : {0.01, 3.0, 100.0}) {
          CrossEntropyProblem p({9}, classes, dtype, options, spread);
          const auto expected = static_cast<double>(plain_loss(p));
          EXPECT_NEAR(p.loss(), expected, (dtype == DType::f64 ? 1e-13 : 4e-6) * (1 + expected));
          CrossEntropyProblem exact({9}, classes, DType::f64, options);
          exact.logits = in_f64(p.logits);
          exact.loss(), exact.gradient(), p.gradient();
          const double factor = options.reduction == nn::Reduction::mean ? 1.0 / 9 : 1;
          const std::vector<double> got = values_of(p.d_logits), d = values_of(exact.d_logits);
          for (size_t i = 0; i < d.size(); ++i)
            ASSERT_NEAR(got[i], d[i], rounding_of(dtype) * std::abs(d[i]) + 2e-6 * factor);
        }
}

// lse is 30000, whose rounding in f32 would change the gradient by 2^-11 of itself.
TEST(CrossEntropy, LogitsFarFromZero) {
  CrossEntropyProblem p({4}, 1000, DType::f32);
  for (float& z : p.logits.values<float>()) z = z + 30000;
  CrossEntropyProblem exact({4}, 1000, DType::f64);
  exact.logits = in_f64(p.logits);
  EXPECT_NEAR(p.loss(), exact.loss(), 1e-6 * exact.loss());
  p.gradient(), exact.gradient();
  EXPECT_LE(difference(p.d_logits, exact.d_logits), 1e-6);
}

TEST(CrossEntropy, InfiniteLogits) {
  const float inf = INFINITY;
  CrossEntropyProblem p({4}, 9, DType::f32, {.reduction = nn::Reduction::sum});
  std::fill(p.logits.values<float>().begin(), p.logits.values<float>().end(), -inf);
  const auto row = [&](size_t r) { return p.logits.values<float>().data() + 9 * r; };
  std::fill_n(p.targets.values<int64_t>().begin(), 4, 8);
  row(0)[8] = -2;                // the only class: loss 0
  row(1)[8] = 0, row(1)[3] = 0;  // one of two: ln 2
  row(2)[8] = 3e38f, row(2)[0] = -3e38f;
  row(3)[8] = -3e38f;
  EXPECT_NEAR(p.loss(), std::log(2.0), 1e-6);
  p.gradient();
  EXPECT_EQ(p.d_logits.values<float>()[8], 0);
  EXPECT_NEAR(p.d_logits.values<float>()[9 + 8], -0.5, 1e-6);
  EXPECT_EQ(p.d_logits.values<float>()[18], 0);
  row(0)[8] = -inf;  // a row without a number, as in PyTorch
  EXPECT_TRUE(std::isnan(p.loss()));
  for (const size_t at : {0u, 4u, 8u}) {
    CrossEntropyProblem nan({2}, 9, DType::f32);
    nan.logits.values<float>()[9 + at] = NAN;
    EXPECT_TRUE(std::isnan(nan.loss()));
    nan.gradient();
    for (size_t i = 0; i < 18; ++i) EXPECT_EQ(std::isnan(nan.d_logits.values<float>()[i]), i >= 9);
  }
}

TEST(CrossEntropy, IgnoredRows) {
  CrossEntropyProblem p({3}, 5, DType::f32, {.label_smoothing = 0.2});
  std::fill_n(p.targets.values<int64_t>().begin(), 3, -100);
  EXPECT_TRUE(std::isnan(p.loss()));
  p.gradient();
  for (const double d : values_of(p.d_logits)) EXPECT_EQ(d, 0);
  p.options.reduction = nn::Reduction::sum;
  EXPECT_EQ(p.loss(), 0);
  CrossEntropyProblem none({0}, 5, DType::f32);
  EXPECT_TRUE(std::isnan(none.loss()));
  none.gradient();
  CrossEntropyProblem no_classes({2}, 0, DType::f32);
  std::fill_n(no_classes.targets.values<int64_t>().begin(), 2, -100);
  EXPECT_TRUE(std::isnan(no_classes.loss()));
  no_classes.gradient();
}

TEST(CrossEntropy, GradientInPlace) {
  CrossEntropyProblem p({7}, 1030, DType::bf16, {.ignore_index = 3, .label_smoothing = 0.1});
  p.targets.values<int64_t>()[2] = 3;
  p.loss(), p.gradient();
  Counted()([&](nn::Arena&, const nn::Run& run) {
    cross_entropy_gradient(p.logits, p.targets, p.lse, p.logits, run, p.options);
  });
  EXPECT_EQ(values_of(p.logits), values_of(p.d_logits));
}

TEST(CrossEntropy, SameBitsForAnyThreads) {
  expect_same_bits([](const Context& context) {
    CrossEntropyProblem p({200}, 3000, DType::f32);
    Tensor loss(DType::f64, {1});
    loss.values<double>()[0] = p.loss(context);
    p.gradient(1, context);
    std::vector<Tensor> results;
    results.push_back(std::move(loss)), results.push_back(std::move(p.lse));
    results.push_back(std::move(p.d_logits));
    return results;
  });
}

TEST(CrossEntropy, AllocatesNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  CrossEntropyProblem p({20}, 30, DType::f32);
  Counted()([&](nn::Arena&, const nn::Run& run) {
    laws::start_counting();
    cross_entropy(p.logits, p.targets, p.lse, run, p.options);
    cross_entropy_gradient(p.logits, p.targets, p.lse, p.d_logits, run, p.options);
    EXPECT_EQ(laws::stop_counting().made, 0);
  });
}

TEST(CrossEntropy, WhatIsRejectedWritesNothing) {
  CrossEntropyProblem p({2, 3}, 5, DType::f32);
  p.loss(), p.gradient();
  const std::vector<double> lse = values_of(p.lse), d = values_of(p.d_logits);
  std::vector<std::byte> memory(1 << 12);
  nn::Arena scratch(memory);
  const Context context;
  const nn::Run run{.scratch = scratch, .context = context};
  for (const int64_t bad : {-1, 5}) {
    Tensor targets = Tensor::copy_of(p.targets);
    targets.values<int64_t>()[4] = bad;
    const std::vector<std::string> words = {"targets[1, 1] is " + std::to_string(bad), "-100"};
    expect_error(ErrorCode::argument, words, [&] { cross_entropy(p.logits, targets, p.lse, run); });
    expect_error(ErrorCode::argument, words,
                 [&] { cross_entropy_gradient(p.logits, targets, p.lse, p.d_logits, run); });
  }
  Tensor flat(DType::i64, {6}), single(DType::f32, {2, 3});
  expect_error(ErrorCode::shape, {"targets [6]", "[2, 3]"},
               [&] { cross_entropy(p.logits, flat, p.lse, run); });
  expect_error(ErrorCode::dtype, {"lse", "f32", "f64"},
               [&] { cross_entropy(p.logits, p.targets, single, run); });
  expect_error(ErrorCode::argument, {"label_smoothing"},
               [&] { cross_entropy(p.logits, p.targets, p.lse, run, {.label_smoothing = 1.5}); });
  expect_error(ErrorCode::overlap, {"d_logits overlaps logits"}, [&] {
    CrossEntropyProblem two({2}, 5, DType::f32), three({3}, 5, DType::f32);
    cross_entropy_gradient(three.logits.view().slice(0, 0, 2), two.targets, two.lse,
                           three.logits.view().slice(0, 1, 3), run);
  });
  EXPECT_EQ(values_of(p.lse), lse);
  EXPECT_EQ(values_of(p.d_logits), d);
}

double squared_error(const Tensor& x, const Tensor& target, const Context& context = {}) {
  double loss = 0;
  Counted{.context = context}(
      [&](nn::Arena&, const nn::Run& run) { loss = mean_squared_error(x, target, run); });
  return loss;
}

TEST(MeanSquaredError, LossAndGradient) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {1}, {3, 7}, {2, 16385}, {40000}}) {
    Tensor x = normal(DType::f64, shape, 1), target = normal(DType::f64, shape, 2);
    Tensor d_x(DType::f64, Shape(shape)), d_target(DType::f64, Shape(shape));
    Counted()([&](nn::Arena&, const nn::Run& run) {
      mean_squared_error_gradient(x, target, d_x, run, 3);
      mean_squared_error_gradient(target, x, d_target, run, 3);
    });
    expect_gradients({{"x", &x, &d_x}, {"target", &target, &d_target}},
                     [&] { return 3 * squared_error(x, target); });
    double sum = 0;
    for (size_t i = 0; i < x.values<double>().size(); ++i)
      sum += std::pow(x.values<double>()[i] - target.values<double>()[i], 2);
    EXPECT_NEAR(squared_error(x, target), sum / static_cast<double>(x.count()), 1e-13);
  }
}

TEST(MeanSquaredError, DTypesBitsAndErrors) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor x = normal(dtype, {100, 50}, 1), target = normal(dtype, {100, 50}, 2);
    EXPECT_NEAR(squared_error(x, target), squared_error(in_f64(x), in_f64(target)), 1e-6);
    Tensor d_x(dtype, {100, 50}), exact(DType::f64, {100, 50}), in_place = Tensor::copy_of(target);
    Counted()([&](nn::Arena&, const nn::Run& run) {
      mean_squared_error_gradient(x, target, d_x, run);
      mean_squared_error_gradient(in_f64(x), in_f64(target), exact, run);
      mean_squared_error_gradient(x, in_place, in_place, run);
    });
    EXPECT_LE(difference(d_x, exact), 2 * rounding_of(dtype) + 1e-6);
    EXPECT_EQ(values_of(in_place), values_of(d_x));
  }
  const Tensor x = normal(DType::f32, {3000, 500}, 1), target = normal(DType::f32, {3000, 500}, 2);
  expect_same_bits([&](const Context& context) {
    Tensor loss(DType::f64, {1});
    loss.values<double>()[0] = squared_error(x, target, context);
    std::vector<Tensor> results;
    results.push_back(std::move(loss));
    return results;
  });
  const Tensor none(DType::f32, {0});
  EXPECT_TRUE(std::isnan(squared_error(none, none)));
  expect_error(ErrorCode::shape, {"target [0]", "[3000, 500]"}, [&] { squared_error(x, none); });
}

}  // namespace

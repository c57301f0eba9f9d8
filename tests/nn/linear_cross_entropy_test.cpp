// The cross-entropy of a linear layer without its logits, beside the loss of its logits.
#include "rapt/nn/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "memory/allocation_hooks.h"
#include "nn/elements.h"
#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "rapt/nn/linear.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

struct LinearLossProblem {
  LinearLossProblem(std::vector<int64_t> rows, int64_t features, int64_t classes, DType dtype,
                    nn::CrossEntropyOptions o = {})
      : options(o),
        layer(nn::make_linear(features, classes, false, dtype)),
        targets(drawn_tokens(rows, std::max<int64_t>(classes, 1), 2)),
        lse(dtype == DType::f64 ? DType::f64 : DType::f32, Shape(rows)) {
    draw_parameters(layer, 3);
    rows.push_back(features);
    x = normal(dtype, rows, 1), d_x = normal(dtype, rows, 4);
  }
  double loss(const Context& context = {}) {
    double result = 0;
    Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
      result = linear_cross_entropy(x, layer.weight, targets, lse, run, options);
    });
    return result;
  }
  void gradient(double d_loss = 1, const Context& context = {}, bool add = false) {
    Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
      linear_cross_entropy_gradient(x, layer.weight, targets, lse, d_x, run, options, d_loss, add);
    });
  }
  // The same by a Linear and its logits.
  double loss_of_logits(Tensor& d_of_x, double d_loss) {
    std::vector<int64_t> shape(targets.dims().begin(), targets.dims().end());
    shape.push_back(layer.out_features());
    Tensor logits(x.dtype(), Shape(shape)), log_sums(DType::f64, targets.dims());
    double result = 0;
    Counted()([&](nn::Arena&, const nn::Run& run) {
      nn::forward(layer, x, logits, run);
      result = cross_entropy(logits, targets, log_sums, run, options);
      cross_entropy_gradient(logits, targets, log_sums, logits, run, options, d_loss);
      nn::backward(layer, x, logits, d_of_x, run);
    });
    return result;
  }
  nn::CrossEntropyOptions options;
  nn::Linear layer;
  Tensor targets, lse, x, d_x;
};

constexpr nn::CrossEntropyOptions kLinearLossOptions[] = {
    {},
    {.ignore_index = 1, .label_smoothing = 0.1},
    {.ignore_index = 0, .reduction = nn::Reduction::sum}};

TEST(LinearCrossEntropy, GradientsAreCentralDifferences) {
  for (const nn::CrossEntropyOptions& options : kLinearLossOptions)
    for (const auto& [features, classes] :
         {std::pair<int64_t, int64_t>{1, 2}, {3, 5}, {17, 40}, {8, 131}}) {
      LinearLossProblem p({2, 4}, features, classes, DType::f64, options);
      std::fill_n(p.targets.values<int64_t>().begin(), 2, classes - 1);
      p.targets.values<int64_t>()[2] = options.ignore_index;
      p.targets.values<int64_t>()[3] = options.ignore_index == 0;
      p.loss(), p.gradient(0.5);
      std::vector<Checked> checked{{"x", &p.x, &p.d_x}};
      add_parameters(p.layer, checked);
      expect_gradients(checked, [&] { return 0.5 * p.loss(); });
    }
}

// Three blocks of classes, the last of them partial.
TEST(LinearCrossEntropy, IsTheLossOfItsLogits) {
  for (const nn::CrossEntropyOptions& options : kLinearLossOptions)
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      LinearLossProblem p({2, 25}, 24, 4100, dtype, options);
      LinearLossProblem exact({2, 25}, 24, 4100, DType::f64, options);
      exact.x = in_f64(p.x), exact.layer.weight.value = in_f64(p.layer.weight.value);
      const double loss = exact.loss_of_logits(exact.d_x, 2);
      const double close = dtype == DType::f64 ? 1e-13 : 1e-5;
      const double rounded = dtype == DType::bf16 ? 0x1p-8 : close;  // rounded weights
      EXPECT_NEAR(p.loss(), loss, close * loss);
      const Tensor before = Tensor::copy_of(p.d_x);
      p.gradient(2);
      EXPECT_LE(difference(p.d_x, exact.d_x), rounded + rounding_of(dtype));
      EXPECT_LE(difference(p.layer.weight.gradient, exact.layer.weight.gradient), rounded);
      const std::vector<double> d_x = values_of(p.d_x);
      std::copy_n(static_cast<const std::byte*>(before.data()),
                  before.count() * size_of(before.dtype()), static_cast<std::byte*>(p.d_x.data()));
      p.gradient(2, {}, true);  // both gradients again
      const std::vector<double> sums = values_of(p.d_x), held = values_of(before);
      for (size_t i = 0; i < d_x.size(); ++i)
        EXPECT_NEAR(sums[i], held[i] + d_x[i],
                    rounding_of(dtype) * (std::abs(sums[i]) + std::abs(d_x[i])) + 1e-15);
      for (double& g : exact.layer.weight.gradient.values<double>()) g *= 2;
      EXPECT_LE(difference(p.layer.weight.gradient, exact.layer.weight.gradient), rounded);
    }
}

TEST(LinearCrossEntropy, OneGradientAloneAndNoRows) {
  LinearLossProblem both({5}, 6, 7, DType::f64), frozen({5}, 6, 7, DType::f64);
  LinearLossProblem of_weight({5}, 6, 7, DType::f64);
  frozen.layer.weight.gradient = {};
  of_weight.d_x = {};
  for (LinearLossProblem* p : {&both, &frozen, &of_weight}) p->loss(), p->gradient();
  EXPECT_EQ(values_of(frozen.d_x), values_of(both.d_x));
  EXPECT_EQ(values_of(of_weight.layer.weight.gradient), values_of(both.layer.weight.gradient));
  LinearLossProblem none({0}, 6, 7, DType::f32);
  EXPECT_TRUE(std::isnan(none.loss()));
  none.gradient();
  LinearLossProblem ignored({3}, 6, 7, DType::f32, {.label_smoothing = 0.5});
  std::fill_n(ignored.targets.values<int64_t>().begin(), 3, -100);
  EXPECT_TRUE(std::isnan(ignored.loss()));
  ignored.gradient();
  for (const double d : values_of(ignored.d_x)) EXPECT_EQ(d, 0);
  for (const double d : values_of(ignored.layer.weight.gradient)) EXPECT_EQ(d, 0);
  LinearLossProblem no_classes({2}, 6, 0, DType::f32);
  std::fill_n(no_classes.targets.values<int64_t>().begin(), 2, -100);
  EXPECT_TRUE(std::isnan(no_classes.loss()));
  no_classes.gradient();
}

TEST(LinearCrossEntropy, SameBitsForAnyThreads) {
  expect_same_bits([](const Context& context) {
    LinearLossProblem p({300}, 32, 2500, DType::f32, {.label_smoothing = 0.1});
    Tensor loss(DType::f64, {1});
    loss.values<double>()[0] = p.loss(context);
    p.gradient(1, context);
    std::vector<Tensor> results;
    append_gradients(p.layer, results);
    results.push_back(std::move(loss)), results.push_back(std::move(p.lse));
    results.push_back(std::move(p.d_x));
    return results;
  });
}

TEST(LinearCrossEntropy, MemoryGrowsWithRowsAndClasses) {
  const auto bytes = [](int64_t rows, int64_t classes) {
    LinearLossProblem p({1}, 16, 1, DType::f32);
    nn::Parameter weight;
    weight.value = Tensor(DType::f32, {classes, 16});
    weight.gradient = Tensor(DType::f32, {classes, 16});
    nn::Arena counter;
    const Context context{.threads = 1};
    const nn::Run run{.scratch = counter, .context = context};
    const int64_t flat[] = {rows}, matrix[] = {rows, 16};
    const TensorView x(nullptr, DType::f32, matrix, false), t(nullptr, DType::i64, flat, true);
    const TensorView lse(nullptr, DType::f32, flat, false);
    linear_cross_entropy(x, weight, t, lse, run);
    linear_cross_entropy_gradient(x, weight, t, lse, x, run);
    return counter.bytes();
  };
  const size_t one = bytes(1000, 10000);
  EXPECT_LE(bytes(2000, 10000), 2 * one);
  EXPECT_LE(bytes(1000, 20000), one + 8 * 10000);  // the starts of tokens
  EXPECT_LE(one, size_t{1000} * 10000);            // a quarter of the logits
}

TEST(LinearCrossEntropy, AllocatesNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  for (const DType dtype : {DType::f32, DType::bf16}) {
    LinearLossProblem p({20}, 8, 30, dtype, {.label_smoothing = 0.1});
    p.loss(), p.gradient();
    const Context context{.threads = 1};
    Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
      laws::start_counting();
      linear_cross_entropy(p.x, p.layer.weight, p.targets, p.lse, run, p.options);
      linear_cross_entropy_gradient(p.x, p.layer.weight, p.targets, p.lse, p.d_x, run, p.options);
      const laws::Allocations allocations = laws::stop_counting();
      if (!run.counts()) {
        EXPECT_EQ(allocations.made, 0);
      }
    });
  }
}

TEST(LinearCrossEntropy, WhatIsRejectedWritesNothing) {
  LinearLossProblem p({2, 3}, 4, 5, DType::f32);
  p.loss(), p.gradient();
  const std::vector<double> lse = values_of(p.lse), d = values_of(p.d_x);
  const std::vector<double> g = values_of(p.layer.weight.gradient);
  std::vector<std::byte> memory(1 << 20);
  nn::Arena scratch(memory);
  const Context context;
  const nn::Run run{.scratch = scratch, .context = context};
  Tensor targets = Tensor::copy_of(p.targets);
  targets.values<int64_t>()[4] = 5;
  expect_error(ErrorCode::argument, {"targets[1, 1] is 5", "less than 5"},
               [&] { linear_cross_entropy(p.x, p.layer.weight, targets, p.lse, run); });
  expect_error(ErrorCode::argument, {"targets[1, 1] is 5"}, [&] {
    linear_cross_entropy_gradient(p.x, p.layer.weight, targets, p.lse, p.d_x, run);
  });
  Tensor other(DType::f32, {2, 3, 3}), doubles(DType::f64, {2, 3});
  expect_error(ErrorCode::shape, {"x [2, 3, 3]", "features = 4"},
               [&] { linear_cross_entropy(other, p.layer.weight, p.targets, p.lse, run); });
  expect_error(ErrorCode::dtype, {"lse", "f64", "f32"},
               [&] { linear_cross_entropy(p.x, p.layer.weight, p.targets, doubles, run); });
  expect_error(ErrorCode::overlap, {"d_x overlaps x"}, [&] {
    linear_cross_entropy_gradient(p.x, p.layer.weight, p.targets, p.lse, p.x, run);
  });
  EXPECT_EQ(values_of(p.lse), lse);
  EXPECT_EQ(values_of(p.d_x), d);
  EXPECT_EQ(values_of(p.layer.weight.gradient), g);
}

}  // namespace

#include "rapt/nn/gated.h"

#include <gtest/gtest.h>

#include "memory/allocation_hooks.h"
#include "nn/elements.h"
#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "rapt/nn/activations.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

constexpr Activation kGates[] = {Activation::none, Activation::relu, Activation::gelu,
                                 Activation::gelu_tanh, Activation::silu};

// Gate and up as the halves of one tensor [..., 2 n], and as two tensors.
struct GatedProblem {
  GatedProblem(std::vector<int64_t> shape, DType dtype) : n(shape.back()), d_y(dtype, {0}) {
    d_y = normal(dtype, shape, 2), y = Tensor(dtype, Shape(shape));
    shape.back() *= 2;
    both = normal(dtype, shape, 1), d_both = Tensor(dtype, Shape(shape));
  }
  TensorView half(Tensor& of, int which) const {
    return of.view().slice(-1, which * n, (which + 1) * n);
  }
  void operator()(Activation activation, const Context& context = {}) {
    Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
      gated_activation(activation, half(both, 0), half(both, 1), y, run);
      gated_activation_gradient(activation, half(both, 0), half(both, 1), d_y, half(d_both, 0),
                                half(d_both, 1), run);
    });
  }
  int64_t n;
  Tensor both, d_both, y, d_y;
};

TEST(Gated, GradientsAreCentralDifferences) {
  const std::vector<int64_t> shapes[] = {{1}, {5}, {3, 1}, {2, 3, 19}, {0, 4}, {3, 0}, {1, 64}};
  for (const Activation activation : kGates)
    for (const std::vector<int64_t>& shape : shapes) {
      GatedProblem p(shape, DType::f64);
      if (activation == Activation::relu)  // away from its kink
        for (double& x : p.both.values<double>()) x += x < 0 ? -0.1 : 0.1;
      p(activation);
      const Tensor d_both = Tensor::copy_of(p.d_both);
      expect_gradients({{"both", &p.both, &d_both}}, [&] {
        p(activation);
        return dot(p.y, p.d_y);
      });
    }
}

TEST(Gated, IsTheActivationTimesUp) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const Activation activation : kGates) {
      GatedProblem p({7, 13}, dtype);
      p(activation);
      const Tensor gate = in_f64(Tensor::copy_of(p.half(p.both, 0)));
      const Tensor up = in_f64(Tensor::copy_of(p.half(p.both, 1)));
      Tensor expected(DType::f64, {7, 13});
      Counted()([&](nn::Arena&, const nn::Run& run) { activate(activation, gate, expected, run); });
      for (size_t i = 0; i < expected.values<double>().size(); ++i)
        expected.values<double>()[i] *= up.values<double>()[i];
      EXPECT_LE(difference(p.y, expected), 2 * rounding_of(dtype));
    }
}

TEST(Gated, TwoTensorsAndTensorsInPlaceHaveTheSameBits) {
  GatedProblem p({6, 21}, DType::f32);
  p(Activation::silu);
  const Tensor gate = Tensor::copy_of(p.half(p.both, 0)), up = Tensor::copy_of(p.half(p.both, 1));
  const Tensor d_gate = Tensor::copy_of(p.half(p.d_both, 0));
  const Tensor d_up = Tensor::copy_of(p.half(p.d_both, 1));
  Counted()([&](nn::Arena&, const nn::Run& run) {
    Tensor y = Tensor::copy_of(gate), other = Tensor::copy_of(up);
    gated_activation(Activation::silu, y, up, y, run);
    gated_activation(Activation::silu, gate, other, other, run);
    Tensor a = Tensor::copy_of(gate), b = Tensor::copy_of(up);
    gated_activation_gradient(Activation::silu, a, b, p.d_y, a, b, run);
    GatedProblem halves({6, 21}, DType::f32);
    gated_activation_gradient(Activation::silu, halves.half(halves.both, 0),
                              halves.half(halves.both, 1), p.d_y, halves.half(halves.both, 0),
                              halves.half(halves.both, 1), run);
    if (run.counts()) return;
    EXPECT_EQ(values_of(y), values_of(p.y));
    EXPECT_EQ(values_of(other), values_of(p.y));
    EXPECT_EQ(values_of(a), values_of(d_gate));
    EXPECT_EQ(values_of(b), values_of(d_up));
    EXPECT_EQ(values_of(halves.both), values_of(p.d_both));
  });
}

TEST(Gated, OneGradientAlone) {
  GatedProblem p({3, 5}, DType::f64);
  p(Activation::gelu);
  Counted()([&](nn::Arena&, const nn::Run& run) {
    Tensor d_gate(DType::f64, {3, 5}), d_up(DType::f64, {3, 5});
    gated_activation_gradient(Activation::gelu, p.half(p.both, 0), p.half(p.both, 1), p.d_y, d_gate,
                              {}, run);
    gated_activation_gradient(Activation::gelu, p.half(p.both, 0), p.half(p.both, 1), p.d_y, {},
                              d_up, run);
    if (run.counts()) return;
    EXPECT_EQ(values_of(d_gate), values_of(Tensor::copy_of(p.half(p.d_both, 0))));
    EXPECT_EQ(values_of(d_up), values_of(Tensor::copy_of(p.half(p.d_both, 1))));
  });
}

TEST(Gated, SameBitsForAnyThreads) {
  expect_same_bits([](const Context& context) {
    GatedProblem p({2000, 100}, DType::f32);
    p(Activation::silu, context);
    std::vector<Tensor> results;
    results.push_back(std::move(p.y)), results.push_back(std::move(p.d_both));
    return results;
  });
}

TEST(Gated, CallsAllocateNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  GatedProblem p({5, 9}, DType::bf16);
  p(Activation::silu);
  Counted()([&](nn::Arena&, const nn::Run& run) {
    laws::start_counting();
    gated_activation(Activation::silu, p.half(p.both, 0), p.half(p.both, 1), p.y, run);
    gated_activation_gradient(Activation::silu, p.half(p.both, 0), p.half(p.both, 1), p.d_y,
                              p.half(p.d_both, 0), p.half(p.d_both, 1), run);
    EXPECT_EQ(laws::stop_counting().made, 0);
  });
}

TEST(Gated, WhatIsRejectedWritesNothing) {
  GatedProblem p({3, 4}, DType::f32);
  p.y = normal(DType::f32, {3, 4}, 3);  // a new tensor may hold NaN, which no value equals
  const std::vector<double> y = values_of(p.y);
  nn::Arena scratch(std::span<std::byte>{});
  const Context context;
  const nn::Run run{.scratch = scratch, .context = context};
  const TensorView gate = p.half(p.both, 0), up = p.half(p.both, 1);
  const Activation silu = Activation::silu;
  Tensor other(DType::f32, {3, 5}), doubles(DType::f64, {3, 4}), wide(DType::f32, {4, 3});
  expect_error(ErrorCode::shape, {"up [3, 5]", "[3, 4]"},
               [&] { gated_activation(silu, gate, other, p.y, run); });
  expect_error(ErrorCode::dtype, {"up [3, 4]", "f64"},
               [&] { gated_activation(silu, gate, doubles, p.y, run); });
  expect_error(ErrorCode::argument, {"gate [3, 4]", "dense along its last"},
               [&] { gated_activation(silu, wide.view().transposed(), up, p.y, run); });
  expect_error(ErrorCode::argument, {"y", "missing"},
               [&] { gated_activation(silu, gate, up, {}, run); });
  expect_error(ErrorCode::argument, {"activation 9"},
               [&] { gated_activation(static_cast<Activation>(9), gate, up, p.y, run); });
  // Halves that lie one element apart, and d_up in the place of gate.
  const TensorView shifted(static_cast<float*>(gate.data) + 1, {3, 4}, {8, 1});
  expect_error(ErrorCode::overlap, {"y overlaps gate"},
               [&] { gated_activation(silu, gate, up, shifted, run); });
  expect_error(ErrorCode::overlap, {"d_up overlaps gate"}, [&] {
    gated_activation_gradient(silu, gate, up, p.d_y, p.half(p.d_both, 0), gate, run);
  });
  expect_error(ErrorCode::overlap, {"d_up overlaps d_gate"},
               [&] { gated_activation_gradient(silu, gate, up, p.d_y, p.y, p.y, run); });
  EXPECT_EQ(values_of(p.y), y);
}

}  // namespace

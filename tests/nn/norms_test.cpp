// LayerNorm and RmsNorm: gradients, dtypes, tensors in place, bits, memory, errors.
#include <gtest/gtest.h>

#include <cmath>

#include "memory/allocation_hooks.h"
#include "nn/elements.h"
#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "rapt/nn/layer_norm.h"
#include "rapt/nn/rms_norm.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

// A norm with its tensors. Forward and backward run with exactly the memory that they count.
template <class Layer>
struct NormProblem {
  NormProblem(Layer l, std::vector<int64_t> shape, DType dtype, uint64_t seed = 1)
      : layer(std::move(l)),
        x(normal(dtype, shape, seed)),
        d_y(normal(dtype, shape, seed + 1)),
        y(dtype, Shape(shape)),
        d_x(normal(dtype, shape, seed + 2)) {
    draw_parameters(layer, seed + 3);
  }
  void operator()(const Context& context = {}, bool add = false) {
    Counted{.context = context}([&](nn::Arena& states, const nn::Run& run) {
      const auto state = make_state(layer, x.dims(), x.dtype(), states);
      forward(layer, x, y, state, run);
      backward(layer, x, d_y, state, d_x, run, add);
    });
  }

  Layer layer;
  Tensor x, d_y, y, d_x;
};

nn::LayerNorm layer_norm(int64_t features, bool weight = true, bool bias = true,
                         DType dtype = DType::f64) {
  return nn::make_layer_norm(features, {.weight = weight, .bias = bias, .epsilon = 1e-3}, dtype);
}
nn::RmsNorm rms_norm(int64_t features, bool weight = true, DType dtype = DType::f64) {
  return nn::make_rms_norm(features, {.weight = weight, .epsilon = 1e-3}, dtype);
}

template <class Layer>
void expect_norm_gradients(Layer layer, std::vector<int64_t> shape) {
  NormProblem<Layer> problem(std::move(layer), shape, DType::f64);
  Tensor first_d_x = Tensor::copy_of(problem.d_x);
  problem();
  std::vector<Checked> checked{{"x", &problem.x, &problem.d_x}};
  add_parameters(problem.layer, checked);
  expect_gradients(
      checked,
      [&] {
        Counted()([&](nn::Arena& states, const nn::Run& run) {
          const auto state = make_state(problem.layer, problem.x.dims(), DType::f64, states);
          forward(problem.layer, problem.x, problem.y, state, run);
        });
        return dot(problem.y, problem.d_y);
      },
      12);
  // Added to what d_x and the gradients of parameters hold.
  const Tensor d_x = Tensor::copy_of(problem.d_x);
  std::vector<Tensor> once, twice;
  append_gradients(problem.layer, once);
  std::swap(problem.d_x, first_d_x);
  const Tensor before = Tensor::copy_of(problem.d_x);
  problem({}, true);
  append_gradients(problem.layer, twice);
  const auto sums = problem.d_x.template values<double>();
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(sums[i], before.values<double>()[i] + d_x.values<double>()[i]);
  for (size_t p = 0; p < once.size(); ++p)
    for (size_t i = 0; i < once[p].values<double>().size(); ++i)
      EXPECT_NEAR(twice[p].values<double>()[i], 2 * once[p].values<double>()[i], 1e-10);
}

const std::vector<int64_t> kNormShapes[] = {{1},    {7},     {1, 1},   {3, 2},       {2, 3, 33},
                                            {0, 5}, {70, 4}, {5, 130}, {2, 1, 4, 9}, {200, 3}};

TEST(Norms, GradientsAreCentralDifferences) {
  for (const std::vector<int64_t>& shape : kNormShapes)
    for (const bool weight : {true, false}) {
      expect_norm_gradients(rms_norm(shape.back(), weight), shape);
      for (const bool bias : {true, false})
        expect_norm_gradients(layer_norm(shape.back(), weight, bias), shape);
    }
}

TEST(Norms, LongRowsAndNoFeatures) {
  expect_norm_gradients(layer_norm(5000), {3, 5000});
  expect_norm_gradients(rms_norm(5000), {3, 5000});
  NormProblem<nn::LayerNorm> none(layer_norm(0), {3, 0}, DType::f64);
  none();
  NormProblem<nn::RmsNorm> no_rows(rms_norm(4), {0, 4}, DType::f64);
  no_rows();
}

// A dtype's results are within a few of its roundings of those in f64 for the same numbers.
template <class Layer, class Make>
void expect_dtypes(const Make& make) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    NormProblem<Layer> problem(make(dtype), {70, 45}, dtype, 5);
    NormProblem<Layer> exact(make(DType::f64), {70, 45}, DType::f64, 5);
    exact.x = in_f64(problem.x), exact.d_y = in_f64(problem.d_y);
    exact.layer.weight.value = in_f64(problem.layer.weight.value);
    if constexpr (requires { problem.layer.bias; })
      exact.layer.bias.value = in_f64(problem.layer.bias.value);
    problem(), exact();
    EXPECT_LE(difference(problem.y, exact.y), 4 * rounding_of(dtype));
    EXPECT_LE(difference(problem.d_x, exact.d_x), 4 * rounding_of(dtype) + 0x1p-20);
    EXPECT_LE(difference(problem.layer.weight.gradient, exact.layer.weight.gradient), 0x1p-20);
    EXPECT_EQ(problem.layer.weight.gradient.dtype(), DType::f32);
  }
}
TEST(Norms, AllDTypes) {
  expect_dtypes<nn::LayerNorm>([](DType dtype) { return layer_norm(45, true, true, dtype); });
  expect_dtypes<nn::RmsNorm>([](DType dtype) { return rms_norm(45, true, dtype); });
}

// E[x^2] - mean^2 would have no correct digit here.
TEST(Norms, AVarianceFarFromZeroDoesNotCancel) {
  NormProblem<nn::LayerNorm> problem(nn::make_layer_norm(768), {4, 768}, DType::f32);
  for (float& x : problem.x.values<float>()) x = 10000 + x;
  NormProblem<nn::LayerNorm> exact(nn::make_layer_norm(768, {}, DType::f64), {4, 768}, DType::f64);
  exact.x = in_f64(problem.x);
  exact.layer.weight.value = in_f64(problem.layer.weight.value);
  exact.layer.bias.value = in_f64(problem.layer.bias.value);
  problem(), exact();
  EXPECT_LE(difference(problem.y, exact.y), 2e-3);  // the rounding of the mean, 2^-24 10000
}

TEST(Norms, TensorsInPlaceHaveTheSameBits) {
  const auto in_place = []<class Layer>(Layer layer) {
    NormProblem<Layer> problem(std::move(layer), {67, 29}, DType::f32);
    const Tensor x = Tensor::copy_of(problem.x), d_y = Tensor::copy_of(problem.d_y);
    problem();
    Counted()([&](nn::Arena& states, const nn::Run& run) {
      const auto state = make_state(problem.layer, x.dims(), DType::f32, states);
      Tensor both = Tensor::copy_of(x);
      forward(problem.layer, both, both, state, run);
      Tensor from_d_y = Tensor::copy_of(d_y), from_x = Tensor::copy_of(x);
      backward(problem.layer, x, from_d_y, state, from_d_y, run);
      backward(problem.layer, from_x, d_y, state, from_x, run);
      if (run.counts()) return;
      EXPECT_EQ(values_of(both), values_of(problem.y));
      EXPECT_EQ(values_of(from_d_y), values_of(problem.d_x));
      EXPECT_EQ(values_of(from_x), values_of(problem.d_x));
    });
  };
  in_place(layer_norm(29, true, true, DType::f32));
  in_place(rms_norm(29, true, DType::f32));
}

TEST(Norms, ARowHasItsOwnBitsAndItsOwnNaN) {
  NormProblem<nn::LayerNorm> all(layer_norm(37, true, true, DType::f32), {9, 37}, DType::f32);
  all();
  for (int64_t row = 0; row < 9; ++row) {
    NormProblem<nn::LayerNorm> one(layer_norm(37, true, true, DType::f32), {1, 37}, DType::f32);
    const auto copy_row = [&](Tensor& to, const Tensor& from) {
      std::copy_n(from.values<float>().begin() + row * 37, 37, to.values<float>().begin());
    };
    copy_row(one.x, all.x), copy_row(one.d_y, all.d_y);
    one();
    Tensor y(DType::f32, {1, 37}), d_x(DType::f32, {1, 37});
    copy_row(y, all.y), copy_row(d_x, all.d_x);
    EXPECT_EQ(values_of(one.y), values_of(y));
    EXPECT_EQ(values_of(one.d_x), values_of(d_x));
  }
  all.x.values<float>()[3 * 37 + 36] = NAN;
  all();
  for (int64_t i = 0; i < 9 * 37; ++i) {
    EXPECT_EQ(std::isnan(all.y.values<float>()[static_cast<size_t>(i)]), i / 37 == 3);
    EXPECT_EQ(std::isnan(all.d_x.values<float>()[static_cast<size_t>(i)]), i / 37 == 3);
  }
}

TEST(Norms, SameBitsForAnyThreads) {
  const auto compute = []<class Layer>(Layer layer, const Context& context) {
    NormProblem<Layer> problem(std::move(layer), {5000, 96}, DType::f32);
    problem(context);
    std::vector<Tensor> results;
    append_gradients(problem.layer, results);
    results.push_back(std::move(problem.y)), results.push_back(std::move(problem.d_x));
    return results;
  };
  expect_same_bits(
      [&](const Context& c) { return compute(layer_norm(96, true, true, DType::f32), c); });
  expect_same_bits([&](const Context& c) { return compute(rms_norm(96, true, DType::f32), c); });
}

TEST(Norms, FrozenParametersAndAbsentGradients) {
  NormProblem<nn::LayerNorm> learned(layer_norm(11), {66, 11}, DType::f64);
  NormProblem<nn::LayerNorm> frozen(layer_norm(11), {66, 11}, DType::f64);
  nn::freeze(frozen.layer);
  learned(), frozen();
  EXPECT_EQ(values_of(frozen.d_x), values_of(learned.d_x));
  for (const bool weight : {true, false}) {  // one of the two learns; d_x is not wanted
    NormProblem<nn::LayerNorm> half(layer_norm(11), {66, 11}, DType::f64);
    (weight ? half.layer.bias : half.layer.weight).gradient = {};
    Counted()([&](nn::Arena& states, const nn::Run& run) {
      const auto state = make_state(half.layer, half.x.dims(), DType::f64, states);
      forward(half.layer, half.x, half.y, state, run);
      backward(half.layer, half.x, half.d_y, state, {}, run);
    });
    const auto of = [&](nn::LayerNorm& layer) -> const Tensor& {
      return (weight ? layer.weight : layer.bias).gradient;
    };
    EXPECT_EQ(values_of(of(half.layer)), values_of(of(learned.layer)));
  }
}

TEST(Norms, CallsWithMemoryAllocateNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  for (const DType dtype : {DType::f32, DType::bf16}) {
    NormProblem<nn::LayerNorm> problem(layer_norm(33, true, true, dtype), {130, 33}, dtype);
    Counted()([&](nn::Arena& states, const nn::Run& run) {
      laws::start_counting();
      const auto state = make_state(problem.layer, problem.x.dims(), dtype, states);
      forward(problem.layer, problem.x, problem.y, state, run);
      backward(problem.layer, problem.x, problem.d_y, state, problem.d_x, run, true);
      EXPECT_EQ(laws::stop_counting().made, 0);
    });
  }
}

TEST(Norms, WhatIsRejectedWritesNothing) {
  NormProblem<nn::LayerNorm> p(layer_norm(4, true, true, DType::f32), {3, 4}, DType::f32);
  const std::vector<double> y = values_of(p.y), d_x = values_of(p.d_x);
  std::vector<std::byte> memory(1 << 14), scratch_memory(1 << 14);
  nn::Arena states(memory), scratch(scratch_memory);
  const Context context;
  const nn::Run run{.scratch = scratch, .context = context};
  const auto state = make_state(p.layer, p.x.dims(), DType::f32, states);
  const auto refuse = [&](ErrorCode code, const std::vector<std::string>& words,
                          const std::function<void()>& call) { expect_error(code, words, call); };
  Tensor other(DType::f32, {3, 5}), doubles(DType::f64, {3, 4}), wide(DType::f32, {3, 8});
  refuse(ErrorCode::shape, {"x [3, 5]", "features = 4"},
         [&] { forward(p.layer, other, p.y, state, run); });
  refuse(ErrorCode::shape, {"y [3, 5]", "[3, 4]"},
         [&] { forward(p.layer, p.x, other, state, run); });
  refuse(ErrorCode::dtype, {"y [3, 4]", "f64", "f32"},
         [&] { forward(p.layer, p.x, doubles, state, run); });
  refuse(ErrorCode::dtype, {"weight", "f32", "f64"},
         [&] { forward(p.layer, doubles, p.y, state, run); });
  refuse(ErrorCode::argument, {"x [3, 4]", "dense"},
         [&] { forward(p.layer, wide.view().slice(1, 0, 4), p.y, state, run); });
  refuse(ErrorCode::argument, {"state.mean", "missing"},
         [&] { forward(p.layer, p.x, p.y, {}, run); });
  refuse(ErrorCode::argument, {"x", "missing"}, [&] { forward(p.layer, {}, p.y, state, run); });
  const TensorView shifted(p.x.values<float>().data() + 1, {2, 4}),
      first = p.x.view().slice(0, 0, 2);
  refuse(ErrorCode::overlap, {"y overlaps x"}, [&] {
    const auto two = make_state(p.layer, shifted.dims(), DType::f32, states);
    forward(p.layer, first, shifted, two, run);
  });
  refuse(ErrorCode::shape, {"d_y [3, 5]"},
         [&] { backward(p.layer, p.x, other, state, p.d_x, run); });
  refuse(ErrorCode::dtype, {"d_x [3, 4]", "f64"},
         [&] { backward(p.layer, p.x, p.d_y, state, doubles, run); });
  refuse(ErrorCode::argument, {"features is -1"}, [] { nn::make_layer_norm(-1); });
  refuse(ErrorCode::argument, {"epsilon is -1"}, [] { nn::make_rms_norm(3, {.epsilon = -1}); });
  EXPECT_EQ(values_of(p.y), y);
  EXPECT_EQ(values_of(p.d_x), d_x);
  for (const double g : values_of(p.layer.weight.gradient)) EXPECT_EQ(g, 0);
}

}  // namespace

#pragma once
// Problems for laws of gradients, and short ways to call the backward pass in a test.
#include <algorithm>
#include <cstring>

#include "check/compare/gradient_comparison.h"
#include "check/draw/drawn_element.h"
#include "check/draw/law_grid.h"
#include "support/call.h"

namespace laws {

using rapt::BackwardInputs;
using rapt::BackwardPasses;
using rapt::BackwardRequest;
using rapt::GradientOutputs;
using rapt::scaled_dot_product_attention_backward;

// The axes that a cell of the test fixes; all others are drawn at random.
inline constexpr double kDropouts[] = {0, 0.3};
inline constexpr size_t kDTypes = 4;  // of the axis: without outputs of another dtype

struct Cell {
  uint8_t mask = 0, dtype = 0, heads = 0, dropout = 0;
};

inline bool can_be(const GridPoint& point) {
  for (size_t a = 0; a < kAxisCount; ++a) {
    if (!built(a, point[a])) return false;
    for (size_t b = a + 1; b < kAxisCount; ++b)
      if (conflict(a, point[a], b, point[b])) return false;
  }
  return true;
}

// Draws a method now and then, and puts axes that it restricts to their first values, except those
// that a cell fixes. Otherwise hardly any point with a method would be possible.
inline void draw_method(GridPoint& point, Random& random) {
  const auto methods = static_cast<int64_t>(kAxes[kMethodAxis].values.size());
  point[kMethodAxis] =
      static_cast<uint8_t>(random.chance(0.1) ? random.between(1, methods - 1) : 0);
  for (const size_t axis : {kCaptureAxis, kBiasAxis, kScoreAxis, kBiasOrderAxis, kNormalizerAxis,
                            kPackedAxis, kRelativeAxis, kRowsAxis, kScaleAxis, kInputsAxis})
    if (conflict(kMethodAxis, point[kMethodAxis], axis, point[axis])) point[axis] = 0;
}

// A point with the cell's values; of captures those that have gradients.
inline GridPoint drawn_point(const Cell& cell, Random& random, InputKinds inputs) {
  GridPoint point;
  do {
    for (size_t axis = 0; axis < kAxisCount; ++axis)
      point[axis] = static_cast<uint8_t>(
          random.between(0, static_cast<int64_t>(kAxes[axis].values.size()) - 1));
    point[kMethodAxis] = 0;
    point[kMaskAxis] = cell.mask;
    point[kHeadsAxis] = cell.heads;
    point[kDTypeAxis] = cell.dtype;
    // The axis lists 16-bit inputs with f32 outputs two places after those with 16-bit outputs.
    const bool wide = cell.dtype >= 2 && random.chance(0.2);
    if (wide) point[kDTypeAxis] = static_cast<uint8_t>(cell.dtype + 2);
    constexpr int64_t kWithGradients = 4;  // none and three kinds of weights
    point[kCaptureAxis] =
        static_cast<uint8_t>(random.chance(0.5) ? 0 : random.between(0, kWithGradients - 1));
    // Packed sequences have neither biases nor weights, and would hardly ever be drawn.
    point[kPackedAxis] = random.chance(0.25);
    if (point[kPackedAxis]) point[kBiasAxis] = point[kBiasOrderAxis] = point[kCaptureAxis] = 0;
    point[kCacheAxis] = 0;  // calls on a cache have no gradients
    if (random.chance(0.5)) point[kRelativeAxis] = 0;
    if (random.chance(0.5)) point[kRowsAxis] = 0;
    // Sparse normalisers multiply single pairs only in calls with none of these.
    if (random.chance(0.25))
      for (const AxisIndex axis :
           {kScoreAxis, kBiasAxis, kBiasOrderAxis, kRelativeAxis, kCaptureAxis})
        point[axis] = 0;
    if (inputs == InputKinds::normal || random.chance(0.5)) point[kInputsAxis] = 0;
    point[kDropoutAxis] = cell.dropout;
    if (inputs == InputKinds::any) draw_method(point, random);
  } while (!can_be(point));
  return point;
}

// Some elements that the inputs axis has drawn move to the inputs of the backward pass alone. Not
// huge ones: gradients are proportional to these inputs.
inline void move_elements(Descriptor& d, std::string_view kind, Random& random) {
  if (kind == "huge") return;
  for (check::ElementSpec& element : d.elements) {
    const auto tensor = random.pick(
        {check::InputTensor::d_output, check::InputTensor::d_lse, check::InputTensor::d_weights});
    if (random.chance(0.6) && has_elements(d, tensor))
      element = drawn_element(d, tensor, kind, random);
  }
}

inline Descriptor gradient_problem(const Cell& cell, Random& random, AxisTally* tally = nullptr,
                                   InputKinds inputs = InputKinds::normal,
                                   Work work = Work::little) {
  const GridPoint point = drawn_point(cell, random, inputs);
  if (tally) tally->count(point);
  Descriptor d = descriptor_at(point, random, work);
  d.dropout = kDropouts[cell.dropout];
  d.dropout_seed = cell.dropout == 0 ? 0 : random.next();
  d.backward.d_lse = random.chance(0.4) && has_statistic(d.normalizer) &&
                     (d.method.empty() || rapt::make_method(d.method)->scope().d_statistic);
  d.backward.two_passes = random.chance(0.3) && !d.relative.any();
  d.backward.f32 = rapt::size_of(d.dtype) == 2 && random.chance(0.3);
  move_elements(d, kAxes[kInputsAxis].values[point[kInputsAxis]], random);
  return d;
}

inline Cell random_cell(Random& random) {
  const auto below = [&](size_t count) {
    return static_cast<uint8_t>(random.between(0, static_cast<int64_t>(count) - 1));
  };
  return {below(kAxes[kMaskAxis].values.size()), below(kDTypes),
          below(std::size(axis_values::kHeads)), below(std::size(kDropouts))};
}

// Calls law(case, gradients of its results, random) for `count` problems that `fits` takes, as
// for_problems() does.
inline void for_gradient_problems(
    int count, const std::function<bool(Descriptor&)>& fits,
    const std::function<void(const Case&, const GradientCase&, Random&)>& law,
    Work work = Work::little) {
  uint64_t seed = base_seed();
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  for (const char* c = info->name(); *c; ++c)
    seed = seed * 1099511628211u + static_cast<uint8_t>(*c);
  Random random(seed);
  for (int n = 0; n < problem_count(count) && !testing::Test::HasFailure();) {
    Descriptor d = gradient_problem(random_cell(random), random, nullptr, InputKinds::normal, work);
    if (fits && !fits(d)) continue;
    ++n;
    const Case c(d);
    SCOPED_TRACE("rapt check '" + to_string(c.descriptor) + "'");
    const GradientCase g(c);
    law(c, g, random);
  }
}

// Every gradient: its name, where it is returned, and where a caller's memory for it is named.
struct GradientTensor {
  const char* name;
  Tensor rapt::Gradients::*tensor;
  TensorView GradientOutputs::*output;
};
inline constexpr GradientTensor kGradientTensors[] = {
    {"d_query", &rapt::Gradients::d_query, &GradientOutputs::d_query},
    {"d_key", &rapt::Gradients::d_key, &GradientOutputs::d_key},
    {"d_value", &rapt::Gradients::d_value, &GradientOutputs::d_value},
    {"d_bias", &rapt::Gradients::d_bias, &GradientOutputs::d_bias},
    {"d_scale", &rapt::Gradients::d_scale, &GradientOutputs::d_scale},
    {"d_score_parameters", &rapt::Gradients::d_score_parameters,
     &GradientOutputs::d_score_parameters},
    {"d_normalizer_parameters", &rapt::Gradients::d_normalizer_parameters,
     &GradientOutputs::d_normalizer_parameters},
    {"d_key_rows", &rapt::Gradients::d_key_rows, &GradientOutputs::d_key_rows},
    {"d_query_rows", &rapt::Gradients::d_query_rows, &GradientOutputs::d_query_rows},
    {"d_value_rows", &rapt::Gradients::d_value_rows, &GradientOutputs::d_value_rows},
    {"d_content_bias", &rapt::Gradients::d_content_bias, &GradientOutputs::d_content_bias},
    {"d_position_bias", &rapt::Gradients::d_position_bias, &GradientOutputs::d_position_bias}};

inline testing::AssertionResult same_gradients(const rapt::Gradients& got,
                                               const rapt::Gradients& expected) {
  for (const auto& [name, tensor, output] : kGradientTensors) {
    if ((got.*tensor).defined() != (expected.*tensor).defined())
      return testing::AssertionFailure() << name << " is there only once";
    if (!(got.*tensor).defined()) continue;
    if (auto same = same_bits(got.*tensor, expected.*tensor); !same)
      return same << " (" << name << ")";
  }
  return testing::AssertionSuccess();
}

// The forward pass of a case over its inputs as they lie in memory, and the results that the
// backward pass reads.
struct Forward {
  Case::Inputs in;
  AttentionOptions options;
  AttentionResult result;

  explicit Forward(const check::Case& c)
      : in(c.laid_out()),
        options(c.wanted_options()),
        result(scaled_dot_product_attention(in.query, in.key, in.value, options)) {}
};

inline rapt::Gradients backward(Forward& f, const BackwardInputs& inputs,
                                const BackwardRequest& request, const Context& context = {}) {
  return scaled_dot_product_attention_backward(f.in.query, f.in.key, f.in.value, f.options, inputs,
                                               request, context);
}
inline rapt::Gradients backward(Forward& f, const GradientCase& g, const Context& context = {}) {
  return backward(f, g.inputs(f.result.state()), g.request(), context);
}

// Views of those that are there.
inline GradientOutputs outputs_of(rapt::Gradients& g) {
  GradientOutputs outputs;
  for (const auto& [name, tensor, output] : kGradientTensors)
    if ((g.*tensor).defined()) outputs.*output = (g.*tensor).view();
  return outputs;
}

// Tensors like those of `g`, every byte 0xff: NaN.
inline rapt::Gradients spoilt_like(const rapt::Gradients& g) {
  rapt::Gradients all;
  for (const auto& [name, tensor, output] : kGradientTensors) {
    const Tensor& t = g.*tensor;
    if (!t.defined()) continue;
    Tensor& spoilt = all.*tensor = Tensor(t.dtype(), t.dims());
    const auto bytes = static_cast<size_t>(t.count() * rapt::size_of(t.dtype()));
    if (bytes > 0) std::memset(spoilt.data(), 0xff, bytes);
  }
  return all;
}

}  // namespace laws

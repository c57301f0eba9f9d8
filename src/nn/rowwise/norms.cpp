// LayerNorm and RmsNorm: checks, tasks, and the sums of parameters' gradients over rows.
#include <cmath>

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/leading.h"
#include "nn/row_tasks.h"
#include "rapt/nn/layer_norm.h"
#include "rapt/nn/rms_norm.h"

namespace rapt::nn {
namespace {

// A task sums the gradients of parameters over so many rows. The sums of so many chunks are added,
// then added to the gradient. So no sum has a long chain of additions.
constexpr int64_t kChunkRows = 64;
constexpr int64_t kChunksAtOnce = 64;

// Operations per element, about.
constexpr double kNormWork = 12;

// A norm of either kind with its tensors.
struct NormCall {
  const Parameter* weight;
  const Parameter* bias;  // null: RmsNorm
  int64_t features;
  double epsilon;
  const TensorView& x;
  TensorView mean, rstd;  // the state; mean is absent of RmsNorm

  bool centred() const { return bias != nullptr; }
  bool biased() const { return bias && bias->defined(); }
  bool learns() const { return weight->learns() || (bias && bias->learns()); }
  // The sums of parameters' gradients side by side: of the weight, and of the bias.
  int64_t sums() const { return centred() ? 2 * features : features; }
};
NormCall call_of(const LayerNorm& layer, const LayerNorm::State& state, const TensorView& x) {
  return {&layer.weight, &layer.bias, layer.features, layer.epsilon, x, state.mean, state.rstd};
}
NormCall call_of(const RmsNorm& layer, const RmsNorm::State& state, const TensorView& x) {
  return {&layer.weight, nullptr, layer.features, layer.epsilon, x, {}, state.rstd};
}

void check_settings(int64_t features, double epsilon) {
  if (features < 0)
    throw Error(ErrorCode::argument,
                "features is " + std::to_string(features) + "; expected 0 or more");
  if (!(epsilon >= 0 && std::isfinite(epsilon)))
    throw Error(ErrorCode::argument,
                "epsilon is " + std::to_string(epsilon) + "; expected a finite number, 0 or more");
}

// Checks what both passes read.
void check_norm(const NormCall& call) {
  check_settings(call.features, call.epsilon);
  check_last("x", call.x, "features", call.features);
  check_input("x", call.x, call.x.dims(), call.x.dtype);
  const int64_t features[] = {call.features};
  if (call.weight->defined()) check_input("weight", call.weight->value, features, call.x.dtype);
  if (call.biased()) check_input("bias", call.bias->value, features, call.x.dtype);
}

// Calls f(name, view) for the tensors of the state.
template <class Function>
void each_of_state(const NormCall& call, const Function& f) {
  if (call.centred()) f("state.mean", call.mean);
  f("state.rstd", call.rstd);
}

void norm_forward(const NormCall& call, const TensorView& y, const Run& run) {
  if (run.counts()) return;
  const TensorView& x = call.x;
  check_norm(call);
  check_output("y", y, x.dims(), x.dtype);
  each_of_state(call, [&](const char* name, const TensorView& view) {
    check_output(name, view, leading_dims(x), computed_type(x.dtype));
    check_apart(name, view, "x", x);
    check_apart(name, view, "y", y);
  });
  check_apart("state.rstd", call.rstd, "state.mean", call.mean);
  check_same_or_apart("y", y, "x", x);
  in_computed_type("x", x.dtype, [&]<class E>() {
    const auto& kernels = layer_kernels<E>().norms;
    const auto function =
        (call.centred() ? kernels.layer_norm : kernels.rms_norm)[static_cast<int>(x.dtype)];
    NormRows<E> all = {};
    if (call.weight->defined()) all.weight = call.weight->value.data();
    if (call.biased()) all.bias = call.bias->value.data();
    all.features = call.features;
    all.epsilon = static_cast<E>(call.epsilon);
    for_ranges(run.context, rows_of(x), kNormWork * static_cast<double>(x.count()),
               [&](int64_t begin, int64_t end) {
                 NormRows<E> some = all;
                 some.x = element_at(x, begin * call.features);
                 some.y = element_at(y, begin * call.features);
                 some.mean = static_cast<E*>(call.mean.data) + begin;
                 some.rstd = static_cast<E*>(call.rstd.data) + begin;
                 some.rows = end - begin;
                 function(some);
               });
  });
}

// Adds the sums of chunks to the gradients of parameters.
template <class E>
void add_chunks(const NormCall& call, const E* sums, int64_t chunks, const Run& run) {
  const auto add_to = [&](const Parameter* p, const E* of_parameter) {
    if (!p || !p->learns()) return;
    const TensorView gradient = const_cast<Parameter*>(p)->gradient.view();
    for_ranges(run.context, call.features, static_cast<double>(chunks * call.features),
               [&](int64_t begin, int64_t end) {
                 for (int64_t c = 0; c < chunks; c += kChunksAtOnce)
                   kernels<E>().matrices.add_column_sums(
                       of_parameter + c * call.sums() + begin, call.sums(),
                       std::min(kChunksAtOnce, chunks - c), end - begin,
                       static_cast<E*>(gradient.data) + begin);
               });
  };
  add_to(call.weight, sums);
  add_to(call.bias, sums + call.features);
}

template <class E>
void norm_backward_as(const NormCall& call, const TensorView& d_y, const TensorView& d_x,
                      const TensorView& sums, const Run& run, bool add) {
  const auto& kernels = layer_kernels<E>().norms;
  const auto function =
      (call.centred() ? kernels.layer_norm_gradient
                      : kernels.rms_norm_gradient)[static_cast<int>(call.x.dtype)];
  NormGradientRows<E> all = {};
  if (call.weight->defined()) all.weight = call.weight->value.data();
  all.add = add;
  all.features = call.features;
  const int64_t rows = rows_of(call.x), chunks = (rows + kChunkRows - 1) / kChunkRows;
  for_ranges(run.context, chunks, kNormWork * static_cast<double>(call.x.count()),
             [&](int64_t begin, int64_t end) {
               for (int64_t c = begin; c < end; ++c) {
                 const int64_t row = c * kChunkRows, at = row * call.features;
                 NormGradientRows<E> some = all;
                 some.x = element_at(call.x, at);
                 some.d_y = element_at(d_y, at);
                 if (d_x.defined()) some.d_x = element_at(d_x, at);
                 some.mean = static_cast<const E*>(call.mean.data) + row;
                 some.rstd = static_cast<const E*>(call.rstd.data) + row;
                 if (sums.defined()) {
                   some.parameters = static_cast<E*>(sums.data) + c * call.sums();
                   std::fill_n(some.parameters, call.sums(), E(0));
                 }
                 some.rows = std::min(kChunkRows, rows - row);
                 function(some);
               }
             });
  if (sums.defined()) add_chunks(call, static_cast<const E*>(sums.data), chunks, run);
}

void check_backward(const NormCall& call, const TensorView& d_y, const TensorView& d_x) {
  const TensorView& x = call.x;
  check_norm(call);
  check_input("d_y", d_y, x.dims(), x.dtype);
  const int64_t features[] = {call.features};
  const auto check_learned = [&](const char* name, const Parameter* p) {
    if (p && p->learns()) check_input(name, p->gradient, features, computed_type(x.dtype));
  };
  check_learned("the gradient of weight", call.weight);
  check_learned("the gradient of bias", call.bias);
  each_of_state(call, [&](const char* name, const TensorView& view) {
    check_input(name, view, leading_dims(x), computed_type(x.dtype));
    check_apart("d_x", d_x, name, view);
  });
  if (!d_x.defined()) return;
  check_output("d_x", d_x, x.dims(), x.dtype);
  check_same_or_apart("d_x", d_x, "x", x);
  check_same_or_apart("d_x", d_x, "d_y", d_y);
}

void norm_backward(const NormCall& call, const TensorView& d_y, const TensorView& d_x,
                   const Run& run, bool add) {
  if (!run.counts()) check_backward(call, d_y, d_x);
  if (!call.learns() && !d_x.defined()) return;
  const Arena::Frame frame(run.scratch);
  TensorView sums;
  if (call.learns()) {
    const int64_t chunks = (rows_of(call.x) + kChunkRows - 1) / kChunkRows;
    sums = run.scratch.take(computed_type(call.x.dtype), {chunks, call.sums()});
  }
  if (run.counts()) return;
  in_computed_type("x", call.x.dtype,
                   [&]<class E>() { norm_backward_as<E>(call, d_y, d_x, sums, run, add); });
}

Parameter make_ones(int64_t count, DType dtype) {
  Parameter p = make_parameter(dtype, {count});
  const auto fill = [&]<class T>(T one) {
    for (T& x : p.value.values<T>()) x = one;
  };
  if (dtype == DType::f32)
    fill(1.0f);
  else if (dtype == DType::f64)
    fill(1.0);
  else if (dtype == DType::bf16)
    fill(BFloat16::from(1));
  else
    fill(Float16::from(1.0f));
  return p;
}

}  // namespace

LayerNorm make_layer_norm(int64_t features, const LayerNormOptions& options, DType dtype) {
  check_settings(features, options.epsilon);
  LayerNorm layer;
  layer.features = features;
  layer.epsilon = options.epsilon;
  if (options.weight) layer.weight = make_ones(features, dtype);
  if (options.bias) layer.bias = make_parameter(dtype, {features});
  return layer;
}

LayerNorm::State make_state(const LayerNorm&, Shape x, DType dtype, Arena& arena) {
  const Shape rows = x.first(x.empty() ? 0 : x.size() - 1);
  return {.mean = arena.take(computed_type(dtype), rows),
          .rstd = arena.take(computed_type(dtype), rows)};
}

void forward(const LayerNorm& layer, const TensorView& x, const TensorView& y,
             const LayerNorm::State& state, const Run& run) {
  norm_forward(call_of(layer, state, x), y, run);
}

void backward(LayerNorm& layer, const TensorView& x, const TensorView& d_y,
              const LayerNorm::State& state, const TensorView& d_x, const Run& run, bool add) {
  norm_backward(call_of(layer, state, x), d_y, d_x, run, add);
}

RmsNorm make_rms_norm(int64_t features, const RmsNormOptions& options, DType dtype) {
  check_settings(features, options.epsilon);
  RmsNorm layer;
  layer.features = features;
  layer.epsilon = options.epsilon;
  if (options.weight) layer.weight = make_ones(features, dtype);
  return layer;
}

RmsNorm::State make_state(const RmsNorm&, Shape x, DType dtype, Arena& arena) {
  return {.rstd = arena.take(computed_type(dtype), x.first(x.empty() ? 0 : x.size() - 1))};
}

void forward(const RmsNorm& layer, const TensorView& x, const TensorView& y,
             const RmsNorm::State& state, const Run& run) {
  norm_forward(call_of(layer, state, x), y, run);
}

void backward(RmsNorm& layer, const TensorView& x, const TensorView& d_y,
              const RmsNorm::State& state, const TensorView& d_x, const Run& run, bool add) {
  norm_backward(call_of(layer, state, x), d_y, d_x, run, add);
}

}  // namespace rapt::nn

#include "rapt/nn/conformer_convolution.h"

#include <string>

#include "nn/blocks/sequences.h"
#include "nn/dense.h"
#include "rapt/nn/activations.h"
#include "rapt/nn/glu.h"

namespace rapt::nn {
namespace {

DType dtype_of_module(const ConformerConvolution& layer) {
  return layer.pointwise_conv1.weight.value.dtype();
}

// [batch, length, factor channels] for the shape of x.
TensorView widened(const TensorView& x, int64_t factor) {
  TensorView wide = x;
  wide.shape[2] *= factor;
  return wide;
}

// Checks x and the state, which `check` is check_output of a forward call and check_input of a
// backward call.
template <class Check>
void check_module(const ConformerConvolution& layer, const TensorView& x,
                  const ConformerConvolution::State& state, const Check& check) {
  const DType dtype = dtype_of_module(layer);
  check_sequences("x", x, "channels", layer.channels());
  check_input("x", x, x.dims(), dtype);
  check("state.both", state.both, widened(x, 2).dims(), dtype);
  check("state.input", state.input, x.dims(), dtype);
  check("state.gated", state.gated, x.dims(), dtype);
  check("state.mixed", state.mixed, x.dims(), dtype);
  check("state.normed", state.normed, x.dims(), dtype);
  check("state.hidden", state.hidden, x.dims(), dtype);
}

}  // namespace

ConformerConvolution make_conformer_convolution(int64_t channels,
                                                const ConformerConvolutionSpec& spec, DType dtype) {
  const auto fail = [](const std::string& message) {
    throw Error(ErrorCode::argument, "the convolution module: " + message);
  };
  if (channels < 1) fail("channels is " + std::to_string(channels) + "; expected at least 1");
  if (spec.padding != ConvPadding::same && spec.padding != ConvPadding::causal)
    fail("this padding shortens sequences; expected ConvPadding::same or ConvPadding::causal");
  if (spec.padding == ConvPadding::same && spec.kernel % 2 == 0)
    fail("a kernel of " + std::to_string(spec.kernel) +
         " has no centre; expected an odd one, or ConvPadding::causal");
  ConformerConvolution layer;
  layer.layer_norm = make_layer_norm(channels, {.epsilon = spec.norm_epsilon}, dtype);
  layer.pointwise_conv1 = make_conv1d(channels, 2 * channels, 1, {}, dtype);
  layer.depthwise_conv = make_conv1d(channels, channels, spec.kernel,
                                     {.padding = spec.padding, .groups = channels}, dtype);
  layer.norm = make_layer_norm(channels, {.epsilon = spec.norm_epsilon}, dtype);
  layer.pointwise_conv2 = make_conv1d(channels, channels, 1, {}, dtype);
  return layer;
}

ConformerConvolution::State make_state(const ConformerConvolution& layer, Shape x, Arena& arena) {
  const DType dtype = dtype_of_module(layer);
  const TensorView shape(nullptr, dtype, x, false);
  check_sequences("x", shape, "channels", layer.channels());
  ConformerConvolution::State state;
  state.layer_norm = make_state(layer.layer_norm, x, dtype, arena);
  state.norm = make_state(layer.norm, x, dtype, arena);
  state.both = arena.take(dtype, widened(shape, 2).dims());
  for (TensorView* view : {&state.input, &state.gated, &state.mixed, &state.normed, &state.hidden})
    *view = arena.take(dtype, x);
  return state;
}

void forward(const ConformerConvolution& layer, const TensorView& x, const TensorView& y,
             const ConformerConvolution::State& state, const Run& run) {
  if (!run.counts()) {
    check_module(layer, x, state, check_output);
    check_output("y", y, x.dims(), x.dtype);
    check_apart("y", y, "x", x);
  }
  forward(layer.layer_norm, x, state.input, state.layer_norm, run);
  forward(layer.pointwise_conv1, state.input, state.both, run);
  glu(state.both, state.gated, run);
  forward(layer.depthwise_conv, state.gated, state.mixed, run);
  forward(layer.norm, state.mixed, state.normed, state.norm, run);
  activate(Activation::silu, state.normed, state.hidden, run);
  forward(layer.pointwise_conv2, state.hidden, y, run);
}

void backward(ConformerConvolution& layer, const TensorView& x, const TensorView& d_y,
              const ConformerConvolution::State& state, const TensorView& d_x, const Run& run,
              bool add) {
  if (!run.counts()) {
    check_module(layer, x, state, check_input);
    check_input("d_y", d_y, x.dims(), x.dtype);
    if (d_x.defined()) check_output("d_x", d_x, x.dims(), x.dtype);
    check_apart("d_x", d_x, "x", x);
    check_same_or_apart("d_x", d_x, "d_y", d_y);
  }
  const Arena::Frame frame(run.scratch);
  const TensorView d_rows = run.scratch.take(x.dtype, x.dims());
  const TensorView d_gated = run.scratch.take(x.dtype, x.dims());
  const TensorView d_both = run.scratch.take(x.dtype, state.both.dims());
  backward(layer.pointwise_conv2, state.hidden, d_y, d_rows, run);
  activation_gradient(Activation::silu, state.normed, d_rows, d_rows, run);
  backward(layer.norm, state.mixed, d_rows, state.norm, d_rows, run);
  backward(layer.depthwise_conv, state.gated, d_rows, d_gated, run);
  glu_gradient(state.both, d_gated, d_both, run);
  backward(layer.pointwise_conv1, state.input, d_both, d_rows, run);
  backward(layer.layer_norm, x, d_rows, state.layer_norm, d_x, run, add);
}

}  // namespace rapt::nn

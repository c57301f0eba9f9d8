#pragma once
// The convolution module of a Conformer block (Gulati et al. 2020, arXiv:2005.08100, figure 2),
// without the dropout behind it and the sum around it:
//
//   both  = layer_norm(x) W1^T + b1                 pointwise_conv1, [batch, length, 2 channels]
//   gated = glu(both)                               [batch, length, channels] from here on
//   mixed = depthwise_conv(gated)                   one kernel per channel, along the sequence
//   y     = silu(norm(mixed)) W2^T + b2             pointwise_conv2
//
//   x, y, d_x, d_y [batch, length, channels], dense
//
// `norm` is a LayerNorm over channels, where the paper has batch normalisation. The statistics of a
// batch would make the result of a sequence depend on the other sequences and on their padding, and
// training would differ from inference.
//
// The depthwise convolution reads all positions in its reach, and knows no mask: rows behind the
// end of a shorter sequence influence its last (kernel - 1) / 2 rows, whatever these rows hold.
// With ConvPadding::causal they influence none. Else give sequences of different lengths to calls
// of their own.
#include "rapt/nn/conv1d.h"
#include "rapt/nn/layer_norm.h"

namespace rapt::nn {

struct ConformerConvolution {
  LayerNorm layer_norm;
  Conv1d pointwise_conv1, depthwise_conv;
  LayerNorm norm;
  Conv1d pointwise_conv2;

  int64_t channels() const noexcept { return layer_norm.features; }

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("layer_norm", layer.layer_norm);
    f("pointwise_conv1", layer.pointwise_conv1);
    f("depthwise_conv", layer.depthwise_conv);
    f("norm", layer.norm);
    f("pointwise_conv2", layer.pointwise_conv2);
  }

  // What a backward call needs of its forward call.
  struct State {
    LayerNorm::State layer_norm;  // of layer_norm
    LayerNorm::State norm;        // of norm
    TensorView input;             // layer_norm(x) [batch, length, channels]
    TensorView both;              // [batch, length, 2 channels]: before the gate
    TensorView gated;             // [batch, length, channels]: before the depthwise convolution
    TensorView mixed;             // [batch, length, channels]: behind it
    TensorView normed;            // norm(mixed) [batch, length, channels]
    TensorView hidden;            // silu(normed) [batch, length, channels]
  };
};

// Sizes, and what differs from the default.
struct ConformerConvolutionSpec {
  int64_t kernel = 31;                      // of the depthwise convolution
  ConvPadding padding = ConvPadding::same;  // or causal: y[t] reads no later position than t
  double norm_epsilon = 1e-5;
};

// Throws Error(argument) for fewer than 1 channel or a kernel below 1, for an even kernel with
// padding `same`, which has no centre, and for padding `valid`, which shortens sequences; as
// make_layer_norm().
ConformerConvolution make_conformer_convolution(int64_t channels,
                                                const ConformerConvolutionSpec& spec = {},
                                                DType dtype = DType::f32);

// `x`: the shape of x. Throws Error(shape) unless it is [batch, length, channels].
ConformerConvolution::State make_state(const ConformerConvolution& layer, Shape x, Arena& arena);

// Writes y and the state. y may not be x. Shapes are checked before anything is written.
void forward(const ConformerConvolution& layer, const TensorView& x, const TensorView& y,
             const ConformerConvolution::State& state, const Run& run);

// Writes d_x, or adds to it if `add`; adds to the gradients of the parameters. d_x may be d_y.
void backward(ConformerConvolution& layer, const TensorView& x, const TensorView& d_y,
              const ConformerConvolution::State& state, const TensorView& d_x, const Run& run,
              bool add = false);

}  // namespace rapt::nn

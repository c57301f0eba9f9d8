#pragma once
// Convolution along a sequence, PyTorch's nn.Conv1d for rows of channels:
//
//   y[b, t, o] = bias[o] + sum over k, i of weight[o, i, k] x[b, t stride + k dilation - left, i']
//
//   x [batch, length, in], y [batch, output_length(length), out]
//   weight [out, in / groups, kernel], bias [out] or absent
//
// PyTorch's tensors are [batch, channels, length]. i' = i + in / groups times the group of o: the
// outputs of a group read the channels of that group. Positions before and after a sequence are 0:
// `left` of them before it, `right` after it.
//
// A kernel of one position is a product. Other kernels are products of rows that are gathered in
// scratch, a few hundred at a time, one product per group. Depthwise kernels (in = out = groups)
// have vector code of their own, with one chain of FMAs over the kernel for each number of y.
#include "rapt/nn/parameter.h"
#include "rapt/nn/run.h"

namespace rapt::nn {

struct Conv1d {
  Parameter weight, bias;
  int64_t groups = 1, stride = 1, dilation = 1;
  int64_t left = 0, right = 0;  // zeros beside each sequence; PyTorch's padding = n is both

  int64_t in_channels() const { return weight.value.dim(1) * groups; }
  int64_t out_channels() const { return weight.value.dim(0); }
  int64_t kernel() const { return weight.value.dim(2); }
  // The length of y for a length of x; 0 where the kernel is longer than the sequence with its
  // zeros.
  int64_t output_length(int64_t length) const;

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("weight", layer.weight);
    f("bias", layer.bias);
  }
};

// With dilation (kernel - 1) zeros beside a sequence, y is as long as x where the stride is 1.
enum class ConvPadding : uint8_t {
  valid,   // no zeros
  same,    // half of them on each side, an odd one on the right; the stride must be 1
  causal,  // all on the left: y[t] reads no later position than t stride
};

// What differs from the default.
struct Conv1dOptions {
  ConvPadding padding = ConvPadding::valid;
  int64_t groups = 1, stride = 1, dilation = 1;
  bool bias = true;
};

// Throws Error(argument) for a kernel, groups, stride or dilation below 1, and for groups that do
// not divide both numbers of channels; Error(shape, overflow).
Conv1d make_conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel,
                   const Conv1dOptions& options = {}, DType dtype = DType::f32);

// Writes y. There is no state: the backward call reads x.
void forward(const Conv1d& layer, const TensorView& x, const TensorView& y, const Run& run);
// Writes d_x, or adds to it if `add`; adds to the gradients of the parameters.
void backward(Conv1d& layer, const TensorView& x, const TensorView& d_y, const TensorView& d_x,
              const Run& run, bool add = false);

}  // namespace rapt::nn

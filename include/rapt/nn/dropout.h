#pragma once
// Dropout of activations (Srivastava et al. 2014), PyTorch's nn.Dropout, in training:
//
//   y = x keep / (1 - p),  d_x = d_y keep / (1 - p)
//   keep[row, column] = word(row, column) >= p 2^32
//
//   x, y, d_x, d_y [..., columns], dense, of one dtype; rows count over the leading dimensions
//
// p is rounded to a multiple of 2^-32 below 1. word() is the generator of attention's dropout
// (rapt/dropout.h) with the seed stream_seed(run.seed, stream), head 0, i = column and j = row. So
// the mask is never stored, and the backward call draws it again. 0 NaN is NaN, as in PyTorch.
//
// With p = 0, or unless run.training, the calls copy. y may be x, and d_x may be d_y.
#include "rapt/nn/run.h"

namespace rapt::nn {

struct Dropout {
  double probability = 0;  // in [0, 1): of an element to be dropped
  uint64_t stream = 0;     // another one for each dropout of a model

  template <class Self, class F>
  static void members(Self&, const F&) {}
};

// The seed of one dropout in a run: a hash of both numbers (SplitMix64, Steele, Lea & Flood 2014,
// stepped by the stream).
uint64_t stream_seed(uint64_t run_seed, uint64_t stream) noexcept;

// `add`: adds to what y holds, for residual connections.
void forward(const Dropout& layer, const TensorView& x, const TensorView& y, const Run& run,
             bool add = false);

// Writes d_x, or adds to it if `add`. `run` must be that of the forward call.
void backward(const Dropout& layer, const TensorView& d_y, const TensorView& d_x, const Run& run,
              bool add = false);

}  // namespace rapt::nn

#pragma once
// The checked call of a convolution: the rows of its source that each output reads.
#include "rapt/nn/conv1d.h"

namespace rapt::nn {

// Tap k of row r of a sequence reads row p / spread of the source, where
//   p = r * step + k * dilation - left,
// if that is a row of the sequence and p is a multiple of `spread`; else zeros. The gradient of x
// is such a convolution, too: of d_y, with the taps in reverse.
struct ConvTaps {
  int64_t rows, source_rows;  // of a sequence
  int64_t taps, step, spread, dilation, left;
};

// Sizes of a call, and its taps forward and back.
struct ConvSizes {
  int64_t batch = 0, in = 0, out = 0, groups = 1;
  ConvTaps forward = {}, back = {};
  DType dtype = DType::f32, computed = DType::f32;

  bool depthwise() const { return in == groups && out == groups; }
  // Is the convolution a product of the rows of x?
  bool pointwise() const {
    return groups == 1 && forward.taps == 1 && forward.step == 1 && forward.left == 0 &&
           forward.rows == forward.source_rows;
  }
};

// y = bias + the convolution of x, or d_x = that of d_y, or + that if `add`. `taps` are those of
// the call, forward or back.
void convolve_depthwise(const ConvSizes& sizes, bool back, const Conv1d& layer,
                        const TensorView& source, const TensorView& to, bool add, const Run& run);
// Adds to the gradients of the weight and the bias, where they learn.
void add_depthwise_gradients(const ConvSizes& sizes, Conv1d& layer, const TensorView& x,
                             const TensorView& d_y, const Run& run);

}  // namespace rapt::nn

#pragma once
// Mean squared error, PyTorch's F.mse_loss with reduction "mean".
//
//   loss = sum((x - target)^2) / count,  d_x = d_loss 2 (x - target) / count
//
//   x, target, d_x [...], dense, of one dtype; d_x may be x or target
//
// The loss of no elements is NaN, as in PyTorch.
#include "rapt/nn/run.h"

namespace rapt::nn {

// Returns the loss; 0 if the call only counts.
double mean_squared_error(const TensorView& x, const TensorView& target, const Run& run);

// Writes d_x.
void mean_squared_error_gradient(const TensorView& x, const TensorView& target,
                                 const TensorView& d_x, const Run& run, double d_loss = 1);

}  // namespace rapt::nn

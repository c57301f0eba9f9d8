#pragma once
// Gated linear unit (Dauphin et al. 2017, arXiv:1612.08083, eq. 1), PyTorch's F.glu with dim = -1:
//
//   y = a sigma(b),  d_a = d_y sigma(b),  d_b = d_y a sigma(b) (1 - sigma(b))
//
//   x [..., 2 features]: a, then b; y [..., features]; d_y like y, d_x = (d_a, d_b) like x
//
// sigma is the logistic function. Tensors are dense and of one dtype. d_x may be x.
#include "rapt/nn/run.h"

namespace rapt::nn {

// Writes y.
void glu(const TensorView& x, const TensorView& y, const Run& run);
// Writes d_x.
void glu_gradient(const TensorView& x, const TensorView& d_y, const TensorView& d_x,
                  const Run& run);

}  // namespace rapt::nn

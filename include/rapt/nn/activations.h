#pragma once
// Activations as calls of their own. A Linear applies one in its store (LinearOptions); its
// gradient is taken here.
//
//   y = activation(z), d_z = d_y activation'(z);  z, y, d_y, d_z [...], dense, of one dtype
//
// y may be z, and d_z may be d_y or z.
#include "rapt/activation.h"
#include "rapt/nn/run.h"

namespace rapt::nn {

// y = activation(z).
void activate(Activation activation, const TensorView& z, const TensorView& y, const Run& run);
// d_z = d_y activation'(z).
void activation_gradient(Activation activation, const TensorView& z, const TensorView& d_y,
                         const TensorView& d_z, const Run& run);

}  // namespace rapt::nn

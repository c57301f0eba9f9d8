#pragma once
// Gated activations (Shazeer 2020, arXiv:2002.05202, eq. 5): SwiGLU with silu, GEGLU with
// gelu or gelu_tanh, ReGLU with relu, the bilinear layer with none.
//
//   y = activation(gate) up
//   d_gate = d_y up activation'(gate),  d_up = d_y activation(gate)
//
//   all tensors [..., features], of one dtype, dense along the features and with rows at equal
//   distances
//
// gate and up may be the halves of one product [..., 2 features], gate first:
//
//   multiply(x, gate_up_weight, both, ...);
//   gated_activation(Activation::silu, both.slice(-1, 0, n), both.slice(-1, n, 2 * n), y, run);
//
// or two tensors, as the gate_proj and up_proj of a LLaMA MLP. y may be gate or up; d_gate may be
// gate and d_up may be up, so that gradients take no memory of their own.
#include "rapt/activation.h"
#include "rapt/nn/run.h"

namespace rapt::nn {

// y = activation(gate) up.
void gated_activation(Activation activation, const TensorView& gate, const TensorView& up,
                      const TensorView& y, const Run& run);

// The gradients of gate and up.
void gated_activation_gradient(Activation activation, const TensorView& gate, const TensorView& up,
                               const TensorView& d_y, const TensorView& d_gate,
                               const TensorView& d_up, const Run& run);

}  // namespace rapt::nn

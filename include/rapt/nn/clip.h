#pragma once
// Gradient clipping by the norm of all gradients together (Pascanu, Mikolov and Bengio 2013,
// algorithm 1), as torch.nn.utils.clip_grad_norm_:
//
//   norm = sqrt(sum of g^2 over all elements of all gradients)
//   g = g max_norm / (norm + 1e-6)  where this factor is below 1
//
// Squares are summed in f64 in an order that depends on the sizes alone, so results have the same
// bits for any executor and number of threads. Frozen parameters have no part in it. Each parameter
// may be in the list once. The calls allocate nothing.
#include <span>

#include "rapt/context.h"
#include "rapt/nn/parameter.h"

namespace rapt::nn {

// The norm of all gradients. A gradient that is not finite makes it Inf or NaN, and so does a sum
// of squares beyond 1.8e308. Throws Error(dtype) for a gradient that is neither f32 nor f64;
// Error(cancelled).
double gradient_norm(std::span<Parameter* const> parameters, const Context& context = {});

// Scales the gradients if their norm is too large, and returns the norm before. A norm that is not
// finite is returned and leaves the gradients unchanged: skip the step then. (PyTorch's default
// would make the gradients 0 or NaN.)
//
// Throws as gradient_norm(), and Error(argument) for a max_norm that is NaN or negative, before
// anything is written. A cancelled token does not stop the scaling that has begun.
double clip_gradients(std::span<Parameter* const> parameters, double max_norm,
                      const Context& context = {});

}  // namespace rapt::nn

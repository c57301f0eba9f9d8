#pragma once
// Activations by the names of transformers' ACT2FN (activations.py).
#include "rapt/activation.h"

namespace rapt::checkpoint {

struct ActivationName {
  const char* name;
  Activation activation;
};

// The first name of an activation is the one that is written.
inline constexpr ActivationName kActivationNames[] = {{"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                      {"gelu_new", Activation::gelu_tanh},
                                                      {"gelu_fast", Activation::gelu_tanh},
                                                      {"gelu", Activation::gelu},
                                                      {"gelu_python", Activation::gelu},
                                                      {"silu", Activation::silu},
                                                      {"swish", Activation::silu},
                                                      {"relu", Activation::relu},
                                                      {"linear", Activation::none}};

}  // namespace rapt::checkpoint

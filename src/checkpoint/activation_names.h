#pragma once
// Activations by the names of transformers' ACT2FN (activations.py).
#include <string>

#include "checkpoint/config_object.h"
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

// The activation that a key names. Throws Error(unsupported): another one.
inline Activation read_activation(const ConfigObject& config, const char* key,
                                  const char* otherwise) {
  const std::string text = config.text(key, otherwise);
  std::string known;
  for (const auto& [name, activation] : kActivationNames) {
    if (text == name) return activation;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  config.reject(key, "one of " + known);
}

}  // namespace rapt::checkpoint

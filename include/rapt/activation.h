#pragma once
// Activations: functions of one number that stand between two products of a network.
#include <cstdint>

namespace rapt {

// Phi is the distribution function of the standard normal distribution, sigma the logistic
// function. A NaN stays NaN.
enum class Activation : uint8_t {
  none,       // z
  relu,       // max(z, 0)
  gelu,       // z Phi(z) (Hendrycks & Gimpel 2016, arXiv:1606.08415, eq. 1); PyTorch's "none"
  gelu_tanh,  // z sigma(2 sqrt(2 / pi) (z + 0.044715 z^3)) (ibid., section 2); PyTorch's "tanh"
  silu,       // z sigma(z) (ibid., section 2; Ramachandran et al. 2017, arXiv:1710.05941)
};

}  // namespace rapt

#pragma once
// Activations (rapt/activation.h) and their derivatives, lane by lane.
#include "kernels/inlining.h"
#include "rapt/activation.h"

namespace rapt::RAPT_ISA {
namespace {

// 1 / (1 + e^-z). The power is of a number that is not positive, so that it cannot overflow.
template <class V>
RAPT_INLINE V sigmoid_of(V z) {
  const V one = V::set(1);
  const V e = exp2(mul(abs(z), V::set(-1.4426950408889634)));  // -log2 e
  const V d = div(one, add(one, e));
  return select(not_at_most(V::set(0), z), mul(e, d), d);  // e d where 0 <= z does not hold
}

// The argument of the logistic function in gelu_tanh, and its derivative.
constexpr double kTanhFactor = 1.5957691216057308;  // 2 sqrt(2 / pi)
constexpr double kCubic = 0.044715;
template <class V>
RAPT_INLINE V tanh_argument(V z, V square) {
  return mul(mul(z, V::set(kTanhFactor)), fma(square, V::set(kCubic), V::set(1)));
}

template <Activation A, class V>
RAPT_INLINE V activate(V z) {
  if constexpr (A == Activation::relu)
    return select(not_at_most(z, V::set(0)), z, V::set(0));
  else if constexpr (A == Activation::silu)
    return mul(z, sigmoid_of(z));
  else if constexpr (A == Activation::gelu_tanh)
    return mul(z, sigmoid_of(tanh_argument(z, mul(z, z))));
  else if constexpr (A == Activation::gelu)
    return mul(z, normal_cdf(z));
  else
    return z;
}

// The derivative at z.
template <Activation A, class V>
RAPT_INLINE V slope(V z) {
  const V one = V::set(1);
  if constexpr (A == Activation::relu) {
    return select(not_at_most(z, V::set(0)), select(equal(z, z), one, z), V::set(0));
  } else if constexpr (A == Activation::silu) {
    const V s = sigmoid_of(z);  // s + z s (1 - s)
    return mul(s, fma(z, sub(one, s), one));
  } else if constexpr (A == Activation::gelu_tanh) {
    const V square = mul(z, z), s = sigmoid_of(tanh_argument(z, square));
    const V inner = mul(V::set(kTanhFactor), fma(square, V::set(3 * kCubic), one));
    // z s (1 - s) is small or 0 for large z, where z inner may be infinite.
    return fma(mul(mul(z, s), sub(one, s)), inner, s);
  } else if constexpr (A == Activation::gelu) {
    V density;
    const V below = normal_cdf(z, density);
    return fma(z, density, below);
  } else {
    return one;
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

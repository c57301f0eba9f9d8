#pragma once
// The functions that formulas apply to their numbers N: float, double and long double here. Numbers
// that also carry a tangent or an error (tolerance/dual_numbers.h) have functions of these names.
#include <cmath>
#include <concepts>
#include <limits>

namespace check {

template <std::floating_point Real>
Real value_of(Real x) {
  return x;
}
template <class N>
using RealOf = decltype(value_of(N()));

// A double as a number, without error; and one whose rounding is an error of N, if N has errors.
template <class N>
N constant(double x) {
  return N(static_cast<RealOf<N>>(x));
}
template <class N>
N of_double(double x) {
  if constexpr (requires { N::of_double(x); }) return N::of_double(x);
  return constant<N>(x);
}

using std::exp, std::log, std::log1p, std::tanh;
template <std::floating_point Real>
Real inverse(Real x) {
  return 1 / x;
}
template <std::floating_point Real>
Real positive_part(Real x) {
  return x <= 0 ? Real{0} : x;  // a NaN stays
}
template <std::floating_point Real>
Real is_positive(Real x) {  // the derivative of positive_part(); 0 at 0
  return x <= 0 ? Real{0} : Real{1};
}

// A number as the sum of its bf16 parts. Of an infinite one, the second part is inf - inf.
template <std::floating_point Real>
Real sum_of_parts(Real x) {
  return std::isinf(x) ? std::numeric_limits<Real>::quiet_NaN() : x;
}

}  // namespace check

#pragma once
// The natural logarithm in terms of the other words, for instruction sets with vectors of their
// own. Special values and errors: simd/plain.h. Coefficients are minimax (dev/minimax.py).
//
// A set has besides `V split(V x, V& exponent)`, for positive, finite x, denormal ones included:
// x = m 2^exponent, 1 <= m < 2; returns m. Anything for other x.
#include "kernels/simd/polynomials.h"

namespace rapt::RAPT_ISA {

// x = m 2^k with m between sqrt(1/2) and sqrt(2), f = m - 1 exactly, and s = f / (2 + f):
//
//   ln m = ln((1 + s) / (1 - s)) = 2s + s z Q(z) = f - s (f - z Q(z)),  z = s^2
//
// where f carries most of the value without error. ln 2 is the sum of two numbers: the product of
// the higher with k enters by the last fma, without a rounding of its own.
template <class V>
inline V log(V x) {
  constexpr bool kSingle = sizeof(typename V::Element) == sizeof(float);
  V k;
  V m = split(x, k);  // 1 <= m < 2
  const auto above = not_at_most(m, V::set(1.4142135623730951));
  m = select(above, mul(m, V::set(0.5)), m);
  k = select(above, add(k, V::set(1)), k);

  const V f = sub(m, V::set(1)), s = div(f, add(f, V::set(2))), z = mul(s, s);
  V q;
  if constexpr (kSingle) {  // relative error of ln m: 8.1e-10
    constexpr double kTerms[] = {6.6666776381163873e-01, 3.9977541619884693e-01,
                                 2.9871726838574630e-01};
    q = polynomial(kTerms, z);
  } else {  // 1.2e-18
    constexpr double kTerms[] = {6.6666666666667340e-01, 3.9999999999414682e-01,
                                 2.8571428742386629e-01, 2.2222198573274082e-01,
                                 1.8183564321848131e-01, 1.5314050654898917e-01,
                                 1.4795948721279323e-01};
    q = polynomial(kTerms, z);
  }
  // ln 2 rounded, and what is left of it.
  const V high = V::set(kSingle ? 6.9314718246459961e-01 : 6.9314718055994529e-01);
  const V low = V::set(kSingle ? -1.9046542999577680e-09 : 2.3190468138462996e-17);
  const V less = sub(mul(s, sub(f, mul(z, q))), mul(k, low));
  V result = fma(k, high, sub(f, less));

  const V zero = V::set(0), infinity = V::set(__builtin_inf());
  result = select(equal(x, infinity), infinity, result);
  result = select(not_at_most(zero, x), V::set(__builtin_nan("")), result);  // negative or NaN
  return select(equal(x, zero), V::set(-__builtin_inf()), result);
}

}  // namespace rapt::RAPT_ISA

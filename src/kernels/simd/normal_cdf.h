#pragma once
// The distribution function and the density of the standard normal distribution in terms of the
// other words, on every instruction set. Special values and errors: simd/scalar.h. Coefficients are
// minimax, relative to the result.
#include "kernels/simd/polynomials.h"

namespace rapt::RAPT_ISA {

// e^(-m^2 / 2) for -14.5 <= m <= 0 (float) or -39 <= m <= 0 (double).
//
// A rounded m^2 would cost up to 50 ulp (float) or 350 ulp (double), because its error is relative
// to an exponent of up to 150 or 1100. So m = h + l, where h is m rounded to a multiple of 2^-5 or
// 2^-13, and with k = log2(e) / 2 = k_high + k_low:
//
//   -k m^2 = -k_high h^2 - (k_low h^2 + k l (m + h)) = high + low
//
// h, l and `high` are exact, because h and k_high have few bits. No step relies on an fma that
// rounds once. `rest` is what the rounding of high + low lost.
template <class V>
inline __attribute__((always_inline)) V exp_of_half_square(V m) {
  constexpr bool kSingle = sizeof(typename V::Element) == sizeof(float);
  constexpr double kHalfLog2E = 0.72134752044448170368;
  constexpr double kHigh = kSingle ? 23.0 / 32 : 23637.0 / 32768;
  constexpr double kLow = kSingle ? 2.5975204444817037e-03 : 3.5263038567036800e-06;
  const V round = V::set(kSingle ? 0x1.8p18 : 0x1.8p39);
  const V h = sub(add(m, round), round), l = sub(m, h), square = mul(h, h);
  const V high = mul(square, V::set(-kHigh));
  const V low = fma(mul(l, add(m, h)), V::set(-kHalfLog2E), mul(square, V::set(-kLow)));
  const V sum = add(high, low), rest = sub(low, sub(sum, high));
  const V e = exp2(sum);
  return fma(e, mul(rest, V::set(6.9314718055994531e-01)), e);
}

// c[0] + c[1] x + ..., with z = x^2. Even and odd powers are two sums, each with half as many
// roundings as one sum of both; for large |x| every one of them shows.
template <class V, int kTerms>
inline __attribute__((always_inline)) V polynomial_by_parity(const double (&c)[kTerms], V x, V z) {
  constexpr int kEven = (kTerms - 1) / 2 * 2, kOdd = kTerms / 2 * 2 - 1;  // the highest powers
  V even = V::set(c[kEven]), odd = V::set(c[kOdd]);
  _Pragma("GCC unroll 16") for (int i = kEven - 2; i >= 0; i -= 2) even =
      fma(even, z, V::set(c[i]));
  _Pragma("GCC unroll 16") for (int i = kOdd - 2; i >= 1; i -= 2) odd = fma(odd, z, V::set(c[i]));
  return fma(odd, x, even);
}

// Phi(x) = (1 + erf(x / sqrt 2)) / 2, and its derivative, density = e^(-x^2 / 2) / sqrt(2 pi).
//
// |x| <= 1.125: 1/2 + x (c + r + x^2 P(x^2)), c + r = 1 / sqrt(2 pi). Where x < 0, these terms
// cancel; c and r are separate so that the rounding of their sum does not show.
// Beyond: Phi(-|x|) = e^(-x^2 / 2) N(m) / D(m), and Phi(|x|) = 1 - Phi(-|x|), with m = -|x|. m has
// a lower bound at which e^(-x^2 / 2) is 0, so that -inf gives no NaN.
template <class V>
inline __attribute__((always_inline)) V normal_cdf(V x, V& density) {
  constexpr bool kSingle = sizeof(typename V::Element) == sizeof(float);
  const V one = V::set(1), half = V::set(0.5);
  const V m = max(V::set(kSingle ? -14.5 : -39), copy_sign(x, V::set(-1)));  // a NaN stays NaN
  const V z = mul(m, m);
  V p, n, d;
  if constexpr (kSingle) {  // relative errors 2.5e-9 near 0, 2.6e-8 beyond
    constexpr double kTerms[] = {7.06510488e-09,  -6.64901677e-02, 9.97235189e-03,
                                 -1.18428451e-03, 1.11579492e-04,  -7.00247657e-06};
    constexpr double kAbove[] = {5.70900500e-01, -4.61937636e-01, 1.67377830e-01, -2.91036200e-02};
    constexpr double kBelow[] = {1.14247060e+00, -1.83227551e+00, 1.23244894e+00, -4.19477016e-01,
                                 7.29535222e-02};
    p = polynomial(kTerms, z), n = polynomial_by_parity(kAbove, m, z),
    d = polynomial_by_parity(kBelow, m, z);
  } else {  // 2.5e-18, 5.6e-17
    constexpr double kTerms[] = {
        8.6370391390727762e-18,  -6.6490380066904109e-02, 9.9735570100108976e-03,
        -1.1873282152612566e-03, 1.1543468652882708e-04,  -9.4446529262675024e-06,
        6.6596272554066796e-07,  -4.1217959899171646e-08, 2.2659792941710223e-09,
        -1.0884133465975949e-10, 3.7586014839479194e-12};
    constexpr double kAbove[] = {
        6.0535738456556887e-01,  -9.2372594807543429e-01, 6.9229263151363252e-01,
        -3.2657449859720600e-01, 1.0532337381733867e-01,  -2.3781686086293444e-02,
        3.6956727242270344e-03,  -3.6680915093643257e-04, 1.8526815452905618e-05};
    constexpr double kBelow[] = {1.2107147601315564e+00, -2.8134625840627128e+00,
                                 3.0240459561903377e+00, -1.9812615315479729e+00,
                                 8.7637392585523732e-01, -2.7317734058121107e-01,
                                 6.0531301065312147e-02, -9.3101175817362127e-03,
                                 9.1945418915271541e-04, -4.6439839453016743e-05};
    p = polynomial(kTerms, z), n = polynomial_by_parity(kAbove, m, z),
    d = polynomial_by_parity(kBelow, m, z);
  }
  const V c = V::set(kSingle ? 3.98942262e-01 : 3.9894228040143265e-01);
  const V near = fma(x, p, fma(x, c, half));
  const V e = exp_of_half_square(m);
  const V lower = mul(e, div(n, d));
  const V far = select(not_at_most(x, V::set(0)), sub(one, lower), lower);
  density = mul(e, V::set(3.9894228040143268e-01));
  return select(not_at_most(V::set(-1.125), m), far, near);
}

}  // namespace rapt::RAPT_ISA

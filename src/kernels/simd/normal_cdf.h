#pragma once
// The distribution function and the density of the standard normal distribution in terms of the
// other words, on every instruction set. Special values and errors: simd/plain.h. Coefficients are
// minimax, by Remez exchange (float: dev/minimax.py cdf and cdf_by_density).
#include "kernels/simd/polynomials.h"

namespace rapt::RAPT_ISA {

// e^(-m^2 / 2) of doubles, -39 <= m <= 0.
//
// A rounded m^2 costs up to 350 ulp, because its error is relative to an exponent of up to 1100. So
// m = h + l, where h is m rounded to a multiple of 2^-13. With k = log2(e) / 2 = k_high + k_low:
//
//   -k m^2 = -k_high h^2 - (k_low h^2 + k l (m + h)) = high + low
//
// h, l and `high` are exact, because h and k_high have few bits. No step needs an fma that rounds
// once. `rest` is what the rounding of high + low loses.
template <class V>
inline __attribute__((always_inline)) V exp_of_half_square(V m) {
  constexpr double kHalfLog2E = 0.72134752044448170368;
  constexpr double kHigh = 23637.0 / 32768, kLow = 3.5263038567036800e-06;
  const V round = V::set(0x1.8p39);
  const V h = sub(add(m, round), round), l = sub(m, h), square = mul(h, h);
  const V high = mul(square, V::set(-kHigh));
  const V low = fma(mul(l, add(m, h)), V::set(-kHalfLog2E), mul(square, V::set(-kLow)));
  const V sum = add(high, low), rest = sub(low, sub(sum, high));
  const V e = exp2(sum);
  return fma(e, mul(rest, V::set(6.9314718055994531e-01)), e);
}

// Phi(m) of floats, m <= 0:
//
//   Phi(m) = 1/2 / (1 + r)^8,  r = m P(m)
//
// P is fitted for -6 <= m; the absolute error of Phi is 8.2e-9. It takes no exponential function,
// and Phi decreases to 0 without a change of its sign. (1 + r)^8 - 1 is computed by squaring
// 1 + r three times without the 1, (1 + r)^2 - 1 = r^2 + 2 r: the roundings of 1 + r would count
// eight times. At -32 the power overflows, and Phi is 0.
template <class V>
inline __attribute__((always_inline)) V lower_tail_by_root(V m) {
  constexpr double kEven[] = {-9.973545372e-02, -8.664428256e-03, -1.801967883e-04, 2.320000385e-05,
                              1.122253252e-06};
  constexpr double kOdd[] = {4.476430640e-02, 8.789628046e-04, 8.174238610e-05, 7.837405974e-06,
                             9.017772840e-08};
  const V bounded = max(V::set(-32), m), z = mul(bounded, bounded);
  V r = mul(bounded, fma(bounded, polynomial(kOdd, z), polynomial(kEven, z)));
  _Pragma("GCC unroll 3") for (int i = 0; i < 3; ++i) r = fma(r, r, add(r, r));
  return div(V::set(0.5), add(V::set(1), r));
}

// Phi(m) of floats, m <= 0, where e = e^(-m^2 / 2) is known: e P(m), P fitted for -5 <= m. The
// absolute error is 5.9e-9. Below -5, P(-5) > 0 takes the place of P(m).
template <class V>
inline __attribute__((always_inline)) V lower_tail_by_density(V m, V e) {
  constexpr double kTerms[] = {5.000000000e-01, 3.989418745e-01, 2.499911636e-01, 1.329138279e-01,
                               6.224653497e-02, 2.603297494e-02, 9.613038041e-03, 3.018116346e-03,
                               7.607920561e-04, 1.436954190e-04, 1.868394611e-05, 1.469777430e-06,
                               5.221790644e-08};
  return mul(e, polynomial(kTerms, max(V::set(-5), m)));
}

// Phi(x) = (1 + erf(x / sqrt 2)) / 2, and its derivative, density = e^(-x^2 / 2) / sqrt(2 pi).
//
// float: Phi(-|x|) as above. Its errors are those of (1 + erf) / 2 in floats, relative to 1.
//
// double: small errors relative to Phi itself. |x| <= 1: (1 + x) / 2 + x P(x^2), where both terms
// are positive for x < 0. The sum of 1/2 and a single polynomial would cancel there. |x| > 1: with
// m = -|x| and w = |x| sqrt(2 pi),
//
//   Phi(m) = e^(-m^2 / 2) N(m) / (w N(m) + R(m)),  Phi(-m) = 1 - Phi(m)
//
// The roundings of N cancel in part, and w N is most of the denominator, so those of R hardly show.
// m has a lower bound at which e^(-m^2 / 2) is 0, so -inf gives no NaN.
//
// Always inlined: a call that returns `density` through memory takes 1.4 times as long (AVX2,
// double, AMD Zen 3).
template <class V>
inline __attribute__((always_inline)) V normal_cdf(V x, V& density) {
  const V one = V::set(1), half = V::set(0.5);
  const V minus = copy_sign(x, V::set(-1));
  if constexpr (sizeof(typename V::Element) == sizeof(float)) {
    const V e = exp2(mul(mul(x, x), V::set(-0.72134752044448170368)));  // log2(e) / 2
    const V lower = lower_tail_by_density(minus, e);
    density = mul(e, V::set(3.9894228040143268e-01));
    return select(not_at_most(x, V::set(0)), sub(one, lower), lower);
  } else {
    const V m = max(V::set(-39), minus);  // a NaN stays NaN
    const V z = mul(m, m);
    // Relative errors 1.5e-17 for |x| <= 1, 5.4e-18 beyond.
    constexpr double kP[] = {-1.0105771959856746e-01, -6.6490380066896379e-02,
                             9.9735570098561897e-03,  -1.1873282138145989e-03,
                             1.1543467900401678e-04,  -9.4446292028556329e-06,
                             6.6591556288313293e-07,  -4.1158486212821892e-08,
                             2.2198344775777867e-09,  -8.8747109637544399e-11};
    constexpr double kN[] = {1.5110462543109366e+00, -2.5207374705671852e+00,
                             2.0687651981426005e+00, -1.0796573059909409e+00,
                             3.9224174980118504e-01, -1.0272748043457958e-01,
                             1.9451139641281225e-02, -2.5877809419050921e-03,
                             2.2280420172641365e-04, -9.8005773853164560e-06};
    constexpr double kR[] = {
        3.0220925109948156e+00,  -3.6651246100736556e+00, 2.2543712659997324e+00,
        -8.9127436432873064e-01, 2.4477211022838741e-01,  -4.7639800552994868e-02,
        6.4374720967442147e-03,  -5.5848731142408908e-04, 2.4566404383482932e-05};
    const V p = polynomial(kP, z), n = polynomial(kN, m), r = polynomial(kR, m);
    const V near = fma(x, p, fma(x, half, half));
    const V w = mul(m, V::set(-2.5066282746310007e+00));
    const V e = exp_of_half_square(m);
    const V lower = mul(e, div(n, fma(w, n, r)));
    const V far = select(not_at_most(x, V::set(0)), sub(one, lower), lower);
    density = mul(e, V::set(3.9894228040143268e-01));
    return select(not_at_most(V::set(-1), m), far, near);
  }
}

// Phi(x) alone.
template <class V>
inline __attribute__((always_inline)) V normal_cdf(V x) {
  if constexpr (sizeof(typename V::Element) == sizeof(float)) {
    const V lower = lower_tail_by_root(copy_sign(x, V::set(-1)));
    return select(not_at_most(x, V::set(0)), sub(V::set(1), lower), lower);
  } else {
    V density;
    return normal_cdf(x, density);
  }
}

}  // namespace rapt::RAPT_ISA

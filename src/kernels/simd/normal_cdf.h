#pragma once
// The distribution function and the density of the standard normal distribution in terms of the
// other words, on every instruction set. Special values and errors: simd/scalar.h. Coefficients are
// minimax, by Remez exchange (for polynomials: dev/minimax.py).
#include "kernels/simd/polynomials.h"

namespace rapt::RAPT_ISA {

// e^(-m^2 / 2) for -14.5 <= m <= 0 (float) or -39 <= m <= 0 (double).
//
// A rounded m^2 costs up to 50 ulp (float) or 350 ulp (double), because its error is relative to an
// exponent of up to 150 or 1100. So m = h + l, where h is m rounded to a multiple of 2^-5 or 2^-13.
// With k = log2(e) / 2 = k_high + k_low:
//
//   -k m^2 = -k_high h^2 - (k_low h^2 + k l (m + h)) = high + low
//
// h, l and `high` are exact, because h and k_high have few bits. No step needs an fma that rounds
// once. `rest` is what the rounding of high + low loses.
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

// Phi(x) = (1 + erf(x / sqrt 2)) / 2, and its derivative, density = e^(-x^2 / 2) / sqrt(2 pi).
//
// |x| <= 1: (1 + x) / 2 + x P(x^2), where both terms are positive for x < 0. The sum of 1/2 and a
// single polynomial would cancel there.
//
// |x| > 1: with m = -|x| and w = |x| sqrt(2 pi),
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
  constexpr bool kSingle = sizeof(typename V::Element) == sizeof(float);
  const V one = V::set(1), half = V::set(0.5);
  const V m = max(V::set(kSingle ? -14.5 : -39), copy_sign(x, V::set(-1)));  // a NaN stays NaN
  const V z = mul(m, m);
  V p, n, r;
  if constexpr (kSingle) {  // relative errors 5.1e-10 for |x| <= 1, 3.2e-9 beyond
    constexpr double kP[] = {-1.01057723e-01, -6.64903149e-02, 9.97307803e-03,
                             -1.18578493e-03, 1.12952170e-04,  -7.46289425e-06};
    constexpr double kN[] = {1.03845823e+00, -1.06626928e+00, 5.12391806e-01, -1.33381546e-01,
                             1.78890843e-02};
    constexpr double kR[] = {2.07664537e+00, -1.18791080e+00, 3.34694535e-01, -4.48333509e-02};
    p = polynomial(kP, z), n = polynomial(kN, m), r = polynomial(kR, m);
  } else {  // 1.5e-17, 5.4e-18
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
    p = polynomial(kP, z), n = polynomial(kN, m), r = polynomial(kR, m);
  }
  const V near = fma(x, p, fma(x, half, half));
  const V w = mul(m, V::set(kSingle ? -2.50662827e+00 : -2.5066282746310007e+00));
  const V e = exp_of_half_square(m);
  const V lower = mul(e, div(n, fma(w, n, r)));
  const V far = select(not_at_most(x, V::set(0)), sub(one, lower), lower);
  density = mul(e, V::set(3.9894228040143268e-01));
  return select(not_at_most(V::set(-1), m), far, near);
}

}  // namespace rapt::RAPT_ISA

#pragma once
// Polynomials that every instruction set with vectors of its own shares, in terms of fma.
#include <cstdint>

namespace rapt::RAPT_ISA {

// c[0] + c[1] x + ..., from the highest power down.
template <class V, int kTerms>
inline __attribute__((always_inline)) V polynomial(const double (&c)[kTerms], V x) {
  V p = V::set(c[kTerms - 1]);
  _Pragma("GCC unroll 16") for (int i = kTerms - 2; i >= 0; --i) p = fma(p, x, V::set(c[i]));
  return p;
}

// 2^f for |f| <= 1/2: minimax polynomials (dev/minimax.py), exactly 1 for f = 0.
//
// float: degree 6, relative error 1.9e-9, its coefficients moved within their last bits so that the
// roundings of this evaluation add up to the least (dev/exp2_round.cpp): 0.78 ulp at most, 0.95
// before. double: degree 11, relative error 3.1e-18, moved likewise: 0.81 ulp, 0.99 before.
// A unit that defines RAPT_WEIGHTS_OF_16_BITS has a shorter one (short_exp2.h).
template <class V>
inline __attribute__((always_inline)) V exp2_of_fraction(V f) {
  if constexpr (sizeof(typename V::Element) == sizeof(float)) {
    constexpr double kTerms[] = {1.0,
                                 6.931471825e-01,
                                 2.402265072e-01,
                                 5.550353974e-02,
                                 9.618520737e-03,
                                 1.339597511e-03,
                                 1.532000606e-04};
    return polynomial(kTerms, f);
  } else {
    constexpr double kTerms[] = {1.0,
                                 6.9314718055994529e-01,
                                 2.4022650695910147e-01,
                                 5.5504108664819966e-02,
                                 9.6181291075884811e-03,
                                 1.3333558146791746e-03,
                                 1.5403530462514169e-04,
                                 1.5252733489915565e-05,
                                 1.3215433089793280e-06,
                                 1.0178198052425636e-07,
                                 7.0741055942198256e-09,
                                 4.4352780250666082e-10};
    return polynomial(kTerms, f);
  }
}

}  // namespace rapt::RAPT_ISA

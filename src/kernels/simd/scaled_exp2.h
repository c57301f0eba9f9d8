#pragma once
// 2^x in terms of the other words, for sets that have `nearest_fraction` and `scale`:
//
//   2^x = 2^f 2^n   x = n + f, n the nearest integer
//
// f = x - n is exact, and so is n = x - f. n = floor(x) would save an instruction, but x - floor(x)
// has to round: 1.6 ulp. 2^-inf is 0 without a branch: f of -inf is 0, and 1 is scaled by 2^-inf.
// Below the smallest normal number the result underflows gradually.
//
// Such a set has
//   nearest_fraction<b>(x)   x minus the nearest multiple of 2^-b, ties to even; exact; 0 of +-inf
//   scale(m, e)              m 2^floor(e), rounded once; 0.5 <= m <= 2
#include "kernels/simd/polynomials.h"

namespace rapt::RAPT_ISA {

template <class V>
inline V exp2(V x) {
  const V f = nearest_fraction<0>(x);
  return scale(exp2_of_fraction(f), sub(x, f));
}

}  // namespace rapt::RAPT_ISA

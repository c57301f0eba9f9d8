#pragma once
// The hyperbolic tangent in terms of the other words, on every instruction set. Coefficients are
// minimax (dev/minimax.py).
#include "kernels/simd/polynomials.h"

namespace rapt::RAPT_ISA {

// |x| <= 1: x + x z P(z), z = x^2. Above: 1 - 2e / (1 + e), e = e^(-2|x|). A lower border would
// let the error of e show, a higher one would take more terms.
template <class V>
inline V tanh(V x) {
  const V one = V::set(1), y = abs(x), z = mul(y, y);
  V p;
  if constexpr (sizeof(typename V::Element) == sizeof(float)) {  // relative error 4.6e-9
    constexpr double kTerms[] = {-3.3333295431687920e-01, 1.3332344570872945e-01,
                                 -5.3879802577154988e-02, 2.1486657040253026e-02,
                                 -7.9461053726999596e-03, 2.3013636170331297e-03,
                                 -3.5845166628958744e-04};
    p = polynomial(kTerms, z);
  } else {  // 1.2e-17
    constexpr double kTerms[] = {
        -3.3333333333332943e-01, 1.3333333333292871e-01,  -5.3968253953426533e-02,
        2.1869488259827156e-02,  -8.8632324517399115e-03, 3.5921056066111120e-03,
        -1.4557213279589845e-03, 5.8961868814590482e-04,  -2.3804386671215591e-04,
        9.4768171730041237e-05,  -3.6086622437831792e-05, 1.2341330036004620e-05,
        -3.4196806575948455e-06, 6.5449603681772885e-07,  -6.2693288406314628e-08};
    p = polynomial(kTerms, z);
  }
  const V small = fma(y, mul(z, p), y);
  const V e = exp2(mul(y, V::set(-2.8853900817779268)));  // -2 log2 e
  const V large = sub(one, div(add(e, e), add(one, e)));
  return copy_sign(select(not_at_most(y, one), large, small), x);
}

}  // namespace rapt::RAPT_ISA

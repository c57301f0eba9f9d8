#pragma once
// The vocabulary for every machine, in plain C++. Meanings: simd/plain.h.
#include <cstdint>

#define RAPT_WORD inline

namespace rapt::isa_scalar {

template <class E>
struct Registers {
  static constexpr int64_t kLanes = 4;  // SSE2 and NEON have four; compilers vectorise the loops
  static constexpr int kRegisters = 16;
  static constexpr int kMaxVectors = 2;
  static constexpr int kLongVectors = 2;
};

}  // namespace rapt::isa_scalar

#include "kernels/simd/plain.h"

namespace rapt::isa_scalar {

template <class E>
RAPT_WORD Lanes<E> fma(Lanes<E> a, Lanes<E> b, Lanes<E> c) {
  return Lanes<E>::each([&](int64_t i) -> E { return a.v[i] * b.v[i] + c.v[i]; });
}
RAPT_WORD F exp2(F a) {
  return F::each([&](int64_t i) { return __builtin_exp2f(a.v[i]); });
}
RAPT_WORD D exp2(D a) {
  return D::each([&](int64_t i) { return __builtin_exp2(a.v[i]); });
}
RAPT_WORD F log(F a) {
  return F::each([&](int64_t i) { return __builtin_logf(a.v[i]); });
}
RAPT_WORD D log(D a) {
  return D::each([&](int64_t i) { return __builtin_log(a.v[i]); });
}

}  // namespace rapt::isa_scalar

#include "kernels/simd/normal_cdf.h"
#include "kernels/simd/tanh.h"
#undef RAPT_WORD

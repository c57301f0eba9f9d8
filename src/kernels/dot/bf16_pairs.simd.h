#pragma once
// Words of the dot route (dot_bf16.cpp): bf16 in pairs, for VDPBF16PS.
#include "kernels/inlining.h"

namespace rapt::RAPT_ISA {
namespace {

using Pair = uint32_t;  // two bf16: the lower half is the one with the even index

RAPT_INLINE int64_t half_of(int64_t n) { return (n + 1) / 2; }
RAPT_INLINE __m512i pair_at(const void* p) {
  Pair pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return _mm512_set1_epi32(static_cast<int>(pair));
}
RAPT_INLINE __m512 dot(__m512 acc, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

}  // namespace
}  // namespace rapt::RAPT_ISA

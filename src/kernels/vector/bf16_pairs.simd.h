#pragma once
// Words of the dot route (dot_bf16.cpp): bf16 in pairs, for VDPBF16PS.
#include "kernels/inlining.h"

namespace rapt::RAPT_ISA {
namespace {

using Pair = uint32_t;  // two bf16: the lower half is the one with the even index

RAPT_INLINE int64_t half_of(int64_t n) { return (n + 1) / 2; }
RAPT_INLINE __mmask32 first_of_32(int64_t n) {
  return n >= 32 ? ~__mmask32{0} : n <= 0 ? 0 : static_cast<__mmask32>((1u << n) - 1);
}
RAPT_INLINE __m512i pair_at(const void* p) {
  Pair pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return _mm512_set1_epi32(static_cast<int>(pair));
}
RAPT_INLINE __m512 dot(__m512 acc, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

// Loads the elements (row, 0 .. n) as a dense, zero-padded run of 32.
RAPT_INLINE __m512i run_of(const uint16_t* row, int64_t stride, int64_t n) {
  if (stride == 1) return _mm512_maskz_loadu_epi16(first_of_32(n), row);
  uint16_t dense[32] = {};
  for (int64_t d = 0; d < n && d < 32; ++d) dense[d] = row[d * stride];
  return _mm512_loadu_si512(dense);
}

// Permutation indices: 16 elements from `first` on, alternating between two vectors.
RAPT_INLINE __m512i interleaving(int first) {
  alignas(64) uint16_t order[32];
  for (int i = 0; i < 16; ++i) {
    order[2 * i] = static_cast<uint16_t>(first + i);
    order[2 * i + 1] = static_cast<uint16_t>(32 + first + i);
  }
  return _mm512_load_si512(order);
}

}  // namespace
}  // namespace rapt::RAPT_ISA

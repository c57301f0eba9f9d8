#pragma once
// Runs of 32 bf16 by the instructions of AVX-512 (BW, BF16), beside the vectors of simd/avx512.h.
// Meanings: simd/plain16_runs.h.
#include "kernels/inlining.h"
#include "kernels/simd/avx512.h"

namespace rapt::RAPT_ISA {
namespace {

using Run = __m512i;

RAPT_INLINE Run zero_run() { return _mm512_setzero_si512(); }
RAPT_INLINE Run load_run(const void* p) { return _mm512_loadu_si512(p); }
RAPT_INLINE Run load_run_where(uint32_t elements, const void* p) {
  return _mm512_maskz_loadu_epi16(elements, p);
}
RAPT_INLINE void store_run(void* p, Run run) { _mm512_storeu_si512(p, run); }

RAPT_INLINE Run run_of_lanes(F x) { return _mm512_castps_si512(x.v); }
RAPT_INLINE F lanes_of_run(Run run) { return {_mm512_castsi512_ps(run)}; }

RAPT_INLINE F low_of(Run run) { return F::widen_bf16(_mm512_castsi512_si256(run)); }
RAPT_INLINE F high_of(Run run) { return F::widen_bf16(_mm512_extracti64x4_epi64(run, 1)); }
RAPT_INLINE Run round_to_run(F low, F high) {
  return reinterpret_cast<Run>(_mm512_cvtne2ps_pbh(high.v, low.v));
}

using RunOrder = __m512i;
RAPT_INLINE RunOrder interleaving(int first) {
  alignas(64) uint16_t order[32];
  for (int i = 0; i < 16; ++i) {
    order[2 * i] = static_cast<uint16_t>(first + i);
    order[2 * i + 1] = static_cast<uint16_t>(32 + first + i);
  }
  return _mm512_load_si512(order);
}
RAPT_INLINE Run in_order(Run even, RunOrder order, Run odd) {
  return _mm512_permutex2var_epi16(even, order, odd);
}
// One permutation, into the other vector.
RAPT_INLINE Run in_turn(F even, F odd) {
  const __m512i upper = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_mask_permutexvar_epi16(_mm512_castps_si512(odd.v), 0x55555555, upper,
                                       _mm512_castps_si512(even.v));
}

RAPT_INLINE F cut(F x) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x.v), upper))};
}
// An integer addition has two ports while tiles are at work; conversions have one, which
// multiplications need.
RAPT_INLINE F add_half(F x) {
  const __m512i u = _mm512_castps_si512(x.v), half = _mm512_set1_epi32(0x8000);
  return {_mm512_castsi512_ps(_mm512_add_epi32(u, half))};
}
RAPT_INLINE F add_half_unless_nan(F x) {
  const __m512i u = _mm512_castps_si512(x.v), half = _mm512_set1_epi32(0x8000);
  const __mmask16 number = _mm512_cmp_ps_mask(x.v, x.v, _CMP_ORD_Q);
  return {_mm512_castsi512_ps(_mm512_mask_add_epi32(u, number, u, half))};
}

RAPT_INLINE M zero_or_between(F x, float least, float most) {
  const int low = __builtin_bit_cast(int, least), high = __builtin_bit_cast(int, most);
  const __m512i u = _mm512_and_si512(_mm512_castps_si512(x.v), _mm512_set1_epi32(0x7FFFFFFF));
  const __m512i above = _mm512_sub_epi32(u, _mm512_set1_epi32(low));
  return {static_cast<__mmask16>(_mm512_cmple_epu32_mask(above, _mm512_set1_epi32(high - low)) |
                                 _mm512_testn_epi32_mask(u, u))};
}
RAPT_INLINE F only(M these, F x) { return {_mm512_maskz_mov_ps(these.m, x.v)}; }

RAPT_INLINE Run and_pairs(Run run, uint32_t pair) {
  return _mm512_and_si512(run, _mm512_set1_epi32(static_cast<int>(pair)));
}
RAPT_INLINE uint32_t not_finite(Run run) {
  const __m512i exponent = _mm512_set1_epi16(0x7F80);  // all ones
  return _mm512_cmpeq_epi16_mask(_mm512_and_si512(run, exponent), exponent);
}

}  // namespace
}  // namespace rapt::RAPT_ISA

#pragma once
// The 64-bit vectors of simd/avx2.h: D is 4 doubles. Meanings: simd/plain.h.
#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/polynomials.h"

namespace rapt::isa_avx2 {

struct D {
  using Element = double;
  static constexpr int64_t kLanes = 4;
  static constexpr int kRegisters = 16;
  static constexpr int kMaxVectors = 2;  // as for F: the registers are the same
  static constexpr int kLongVectors = 2;
  __m256d v;

  static D load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static D load_first(const double* p, int64_t n) { return {_mm256_maskload_pd(p, first(n))}; }
  static D set(double x) { return {_mm256_set1_pd(x)}; }
  static D splat(double x) { return {_mm256_set1_pd(x)}; }
  static __m256i first(int64_t n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
  }
};

inline void store(double* p, D a) { _mm256_storeu_pd(p, a.v); }
inline void store_first(double* p, D a, int64_t n) { _mm256_maskstore_pd(p, D::first(n), a.v); }
inline D add(D a, D b) { return {_mm256_add_pd(a.v, b.v)}; }
inline D sub(D a, D b) { return {_mm256_sub_pd(a.v, b.v)}; }
inline D mul(D a, D b) { return {_mm256_mul_pd(a.v, b.v)}; }
inline D div(D a, D b) { return {_mm256_div_pd(a.v, b.v)}; }
inline D fma(D a, D b, D c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
inline D max(D a, D b) { return {_mm256_max_pd(a.v, b.v)}; }
inline D abs(D a) { return {_mm256_andnot_pd(_mm256_set1_pd(-0.0), a.v)}; }
inline D copy_sign(D magnitude, D sign) {
  return {_mm256_or_pd(abs(magnitude).v, _mm256_and_pd(_mm256_set1_pd(-0.0), sign.v))};
}

// What a comparison of D gives.
struct DoubleMask {
  __m256d m;  // all bits of a lane set or clear
  operator M() const { return {static_cast<uint64_t>(_mm256_movemask_pd(m))}; }
};
inline DoubleMask equal(D a, D b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ)}; }
inline DoubleMask not_at_most(D a, D b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_NLE_UQ)}; }
inline D select(DoubleMask m, D yes, D no) { return {_mm256_blendv_pd(no.v, yes.v, m.m)}; }
inline D select(M m, D yes, D no) {
  const __m256i lane = _mm256_setr_epi64x(1, 2, 4, 8);
  const __m256i word = _mm256_set1_epi64x(static_cast<int64_t>(m.bits));
  const __m256i set = _mm256_cmpeq_epi64(_mm256_and_si256(word, lane), lane);
  return select(DoubleMask{_mm256_castsi256_pd(set)}, yes, no);
}

// 2^x = 2^f 2^n; the addition of kRound rounds x to the integer n and leaves n in the lowest bits,
// from where a shift brings it into the exponent. For x <= 1023. Below -1022 the result is 0, which
// also serves for -inf. `max` makes n a multiple of 2^12 there and where x is NaN, so that the
// shift pushes it out and the NaN stays one.
inline D exp2(D x) {
  const __m256d kRound = _mm256_set1_pd(0x1.8p52), kLowest = _mm256_set1_pd(0x1.8p52 - 4096);
  const __m256d rounded = _mm256_max_pd(_mm256_add_pd(x.v, kRound), kLowest);
  const D f = {_mm256_sub_pd(x.v, _mm256_sub_pd(rounded, kRound))};
  const __m256i n = _mm256_slli_epi64(_mm256_castpd_si256(rounded), 52);
  const __m256i scaled = _mm256_add_epi64(_mm256_castpd_si256(exp2_of_fraction(f).v), n);
  const __m256d too_low = _mm256_cmp_pd(x.v, _mm256_set1_pd(-1022.0), _CMP_LT_OQ);
  return {_mm256_andnot_pd(too_low, _mm256_castsi256_pd(scaled))};
}

inline D split(D x, D& exponent) {
  // Denormal numbers become normal by 2^54, which is taken back from the exponent.
  const __m256d tiny = _mm256_cmp_pd(x.v, _mm256_set1_pd(0x1p-1022), _CMP_LT_OQ);
  const __m256d scaled = _mm256_blendv_pd(x.v, _mm256_mul_pd(x.v, _mm256_set1_pd(0x1p54)), tiny);
  const __m256d bias =
      _mm256_blendv_pd(_mm256_set1_pd(0x1p52 + 1023), _mm256_set1_pd(0x1p52 + 1023 + 54), tiny);
  const __m256i bits = _mm256_castpd_si256(scaled);
  // The exponent as the lowest bits of a number in [2^52, 2^53).
  const __m256d biased =
      _mm256_or_pd(_mm256_castsi256_pd(_mm256_srli_epi64(bits, 52)), _mm256_set1_pd(0x1p52));
  exponent.v = _mm256_sub_pd(biased, bias);
  const __m256i fraction = _mm256_and_si256(bits, _mm256_set1_epi64x(0xFFFFFFFFFFFFF));
  return {_mm256_or_pd(_mm256_castsi256_pd(fraction), _mm256_set1_pd(1.0))};
}

// One lane after the other: there is no instruction for it.
inline int64_t compress(uint64_t bits, D a, const int32_t* numbers, double* to,
                        int32_t* numbers_to) {
  double lane[D::kLanes];
  int32_t chosen[D::kLanes];
  store(lane, a);
  for (int64_t i = 0; i < D::kLanes; ++i) chosen[i] = numbers[i];
  int64_t count = 0;
  for (int64_t i = 0; i < D::kLanes; ++i) {
    to[count] = lane[i], numbers_to[count] = chosen[i];
    count += static_cast<int64_t>((bits >> i) & 1);
  }
  return count;
}

inline void pin(D& x) { asm("" : "+x"(x.v)); }

// 4 x 4: pairs inside the 128-bit halves, then the halves.
inline __attribute__((always_inline)) void transpose(D (&r)[4]) {
  const __m256d a = _mm256_unpacklo_pd(r[0].v, r[1].v), b = _mm256_unpackhi_pd(r[0].v, r[1].v);
  const __m256d c = _mm256_unpacklo_pd(r[2].v, r[3].v), d = _mm256_unpackhi_pd(r[2].v, r[3].v);
  r[0].v = _mm256_permute2f128_pd(a, c, 0x20);
  r[1].v = _mm256_permute2f128_pd(b, d, 0x20);
  r[2].v = _mm256_permute2f128_pd(a, c, 0x31);
  r[3].v = _mm256_permute2f128_pd(b, d, 0x31);
}

}  // namespace rapt::isa_avx2

#pragma once
// The 64-bit vectors of simd/avx512.h: D is 8 doubles. Meanings: simd/plain.h.
#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/polynomials.h"

namespace rapt::RAPT_ISA {

struct D {
  using Element = double;
  static constexpr int64_t kLanes = 8;
  static constexpr int kRegisters = 32;
  static constexpr int kMaxVectors = 3;  // as for F: the registers are the same
  static constexpr int kLongVectors = 3;
  __m512d v;

  static D load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static D load_first(const double* p, int64_t n) { return {_mm512_maskz_loadu_pd(first(n), p)}; }
  static D set(double x) { return {_mm512_set1_pd(x)}; }
  static D splat(double x) { return {_mm512_set1_pd(x)}; }
  static __mmask8 first(int64_t n) {
    return static_cast<__mmask8>(n >= kLanes ? 0xFF : n <= 0 ? 0 : (1 << n) - 1);
  }
};

inline void store(double* p, D a) { _mm512_storeu_pd(p, a.v); }
inline void store_first(double* p, D a, int64_t n) { _mm512_mask_storeu_pd(p, D::first(n), a.v); }
inline D add(D a, D b) { return {_mm512_add_pd(a.v, b.v)}; }
inline D sub(D a, D b) { return {_mm512_sub_pd(a.v, b.v)}; }
inline D mul(D a, D b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline D div(D a, D b) { return {_mm512_div_pd(a.v, b.v)}; }
inline D fma(D a, D b, D c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
inline D max(D a, D b) { return {_mm512_max_pd(a.v, b.v)}; }
inline D abs(D a) { return {_mm512_abs_pd(a.v)}; }
inline D copy_sign(D magnitude, D sign) {
  const __m512d bit = _mm512_set1_pd(-0.0);
  return {_mm512_or_pd(_mm512_andnot_pd(bit, magnitude.v), _mm512_and_pd(bit, sign.v))};
}

inline M equal(D a, D b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline M not_at_most(D a, D b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_NLE_UQ)}; }
inline int64_t compress(uint64_t bits, D a, const int32_t* numbers, double* to,
                        int32_t* numbers_to) {
  const auto m = static_cast<__mmask8>(bits);
  const auto* from = reinterpret_cast<const __m256i*>(numbers);
  const __m256i chosen = _mm256_maskz_compress_epi32(m, _mm256_loadu_si256(from));
  _mm512_storeu_pd(to, _mm512_maskz_compress_pd(m, a.v));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(numbers_to), chosen);
  return __builtin_popcount(m);
}
inline D select(M m, D yes, D no) {
  return {_mm512_mask_blend_pd(static_cast<__mmask8>(m.m), no.v, yes.v)};
}

template <int kBits>
inline D nearest_fraction(D x) {
  constexpr int kNearest = kBits << 4 | _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm512_reduce_pd(x.v, kNearest)};
}
inline D scale(D mantissa, D exponent) { return {_mm512_scalef_pd(mantissa.v, exponent.v)}; }
inline D split(D x, D& exponent) {
  exponent.v = _mm512_getexp_pd(x.v);
  return {_mm512_getmant_pd(x.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src)};
}

inline void pin(D& x) { asm("" : "+v"(x.v)); }

// 8 x 8: pairs inside the 128-bit parts, then the parts.
inline __attribute__((always_inline)) void transpose(D (&r)[8]) {
  __m512d t[8];
  _Pragma("GCC unroll 16") for (int i = 0; i < 8; i += 2) {
    t[i] = _mm512_unpacklo_pd(r[i].v, r[i + 1].v);
    t[i + 1] = _mm512_unpackhi_pd(r[i].v, r[i + 1].v);
  }
  _Pragma("GCC unroll 16") for (int odd = 0; odd < 2; ++odd) {
    const __m512d a = _mm512_shuffle_f64x2(t[odd], t[odd + 2], 0x88);  // parts 0, 2 of rows 0 to 3
    const __m512d b = _mm512_shuffle_f64x2(t[odd], t[odd + 2], 0xDD);  // parts 1, 3
    const __m512d c = _mm512_shuffle_f64x2(t[odd + 4], t[odd + 6], 0x88);  // of rows 4 to 7
    const __m512d d = _mm512_shuffle_f64x2(t[odd + 4], t[odd + 6], 0xDD);
    r[odd].v = _mm512_shuffle_f64x2(a, c, 0x88);
    r[odd + 2].v = _mm512_shuffle_f64x2(b, d, 0x88);
    r[odd + 4].v = _mm512_shuffle_f64x2(a, c, 0xDD);
    r[odd + 6].v = _mm512_shuffle_f64x2(b, d, 0xDD);
  }
}

}  // namespace rapt::RAPT_ISA

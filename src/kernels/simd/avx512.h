#pragma once
// The vocabulary for AVX-512 (F, BW, DQ, VL): F is 16 floats, D (avx512_f64.h) 8
// doubles. Meanings: simd/plain.h.
#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/polynomials.h"

namespace rapt::RAPT_ISA {

struct M {
  __mmask16 m;  // of 8 lanes the lower half
};

struct F {
  using Element = float;
  static constexpr int64_t kLanes = 16;
  static constexpr int kRegisters = 32;
  static constexpr int kMaxVectors = 4;
  static constexpr int kLongVectors = 3;  // 48 queries: 24 accumulators, fewest loads per FMA
#if defined(RAPT_WEIGHTS_OF_16_BITS)
  static constexpr bool kWeightsOf16Bits = true;
#if defined(RAPT_NORMAL_WEIGHTS)
  static constexpr bool kNormalWeights = true;
#endif
#endif
  __m512 v;

  static F load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static F load_first(const float* p, int64_t n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
  static F load_bf16(const uint16_t* p) {
    return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_pairs(const uint16_t* p) { return {_mm512_loadu_ps(p)}; }
  static F load_f16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static F load_first_bf16(const uint16_t* p, int64_t n) {
    return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p));
  }
  static F load_first_f16(const uint16_t* p, int64_t n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p))};
  }
  static F set(double x) { return {_mm512_set1_ps(static_cast<float>(x))}; }
  static F splat(float x) { return {_mm512_set1_ps(x)}; }
  static __mmask16 first(int64_t n) {
    return static_cast<__mmask16>(n >= kLanes ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1);
  }
  static F widen_bf16(__m256i halves) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
  }
};

inline void store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
inline void store_first(float* p, F a, int64_t n) { _mm512_mask_storeu_ps(p, F::first(n), a.v); }
// BFloat16::from on every lane. Not by VCVTNEPS2BF16, which makes zeros of denormal numbers.
inline __m256i round_bf16(F a) {
  const __m512i u = _mm512_castps_si512(a.v), one = _mm512_set1_epi32(1);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), one);
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_mask_or_epi32(up, nan, u, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}
inline __m256i round_f16(F a) { return _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT); }
inline void store_bf16(uint16_t* p, F a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_bf16(a));
}
inline void store_f16(uint16_t* p, F a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_f16(a));
}
inline void store_first_bf16(uint16_t* p, F a, int64_t n) {
  _mm256_mask_storeu_epi16(p, F::first(n), round_bf16(a));
}
inline void store_first_f16(uint16_t* p, F a, int64_t n) {
  _mm256_mask_storeu_epi16(p, F::first(n), round_f16(a));
}
inline F lower_bf16(F pairs) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs.v), 16))};
}
inline F upper_bf16(F pairs) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(pairs.v), upper))};
}
inline F add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F abs(F a) { return {_mm512_abs_ps(a.v)}; }
inline F copy_sign(F magnitude, F sign) {
  const __m512 bit = _mm512_set1_ps(-0.0f);
  return {_mm512_or_ps(_mm512_andnot_ps(bit, magnitude.v), _mm512_and_ps(bit, sign.v))};
}

inline M equal(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline M not_at_most(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NLE_UQ)}; }
inline bool any(M m) { return m.m != 0; }
inline uint64_t bits_of(M m) { return m.m; }
inline M mask_of(uint64_t bits) { return {static_cast<__mmask16>(bits)}; }
inline F select(M m, F yes, F no) { return {_mm512_mask_blend_ps(m.m, no.v, yes.v)}; }
// In registers: VCOMPRESSPS to memory is slow on AMD.
inline int64_t compress(uint64_t bits, F a, const int32_t* numbers, float* to,
                        int32_t* numbers_to) {
  const auto m = static_cast<__mmask16>(bits);
  const __m512i chosen = _mm512_maskz_compress_epi32(m, _mm512_loadu_si512(numbers));
  _mm512_storeu_ps(to, _mm512_maskz_compress_ps(m, a.v));
  _mm512_storeu_si512(numbers_to, chosen);
  return __builtin_popcount(m);
}

// VREDUCEPS is one instruction; VRNDSCALEPS for the multiple would take two slots on Intel.
template <int kBits>
inline F nearest_fraction(F x) {
  constexpr int kNearest = kBits << 4 | _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm512_reduce_ps(x.v, kNearest)};
}
inline F scale(F mantissa, F exponent) { return {_mm512_scalef_ps(mantissa.v, exponent.v)}; }
#if defined(RAPT_WEIGHTS_OF_16_BITS)
inline M not_below(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NLT_UQ)}; }
inline F scale_or_zero(M these, F mantissa, F exponent) {
  return {_mm512_maskz_scalef_ps(these.m, mantissa.v, exponent.v)};
}
inline F look_up(const float (&table)[32], F index) {
  return {_mm512_permutex2var_ps(_mm512_load_ps(table), _mm512_castps_si512(index.v),
                                 _mm512_load_ps(table + 16))};
}
#endif
inline F split(F x, F& exponent) {
  exponent.v = _mm512_getexp_ps(x.v);
  return {_mm512_getmant_ps(x.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src)};
}

struct U {
  static constexpr int64_t kLanes = 8;
  __m512i v;

  static U load(const uint64_t* p) { return {_mm512_loadu_si512(p)}; }
  static U splat(uint64_t x) { return {_mm512_set1_epi64(static_cast<int64_t>(x))}; }
};
inline void store(uint64_t* p, U a) { _mm512_storeu_si512(p, a.v); }
inline U mul_halves(U a, U b) { return {_mm512_mul_epu32(a.v, b.v)}; }
inline U upper_half(U a) { return {_mm512_srli_epi64(a.v, 32)}; }
inline U exclusive_or(U a, U b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline U exclusive_or(U a, U b, U c) { return {_mm512_ternarylogic_epi64(a.v, b.v, c.v, 0x96)}; }
inline uint64_t at_least(U even, U odd, uint32_t bound) {
  const __m512i x = _mm512_mask_shuffle_epi32(even.v, 0xAAAA, odd.v, _MM_PERM_CCAA);
  return _mm512_cmpge_epu32_mask(x, _mm512_set1_epi32(static_cast<int>(bound)));
}

inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
inline void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
inline void touch(const void* p) { (void)*static_cast<const volatile char*>(p); }
inline void pin(F& x) { asm("" : "+v"(x.v)); }

// 16 x 16: pairs and quadruples inside the 128-bit parts, then the parts.
inline __attribute__((always_inline)) void transpose(F (&r)[16]) {
  __m512 t[16];
  _Pragma("GCC unroll 16") for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i].v, r[i + 1].v);
    t[i + 1] = _mm512_unpackhi_ps(r[i].v, r[i + 1].v);
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < 16; i += 4)
      _Pragma("GCC unroll 16") for (int h = 0; h < 2; ++h) {
    const __m512d a = _mm512_castps_pd(t[i + h]), b = _mm512_castps_pd(t[i + h + 2]);
    r[i + 2 * h].v = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
    r[i + 2 * h + 1].v = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < 16; i += 8)
      _Pragma("GCC unroll 16") for (int c = 0; c < 4; ++c) {
    t[i + c] = _mm512_shuffle_f32x4(r[i + c].v, r[i + c + 4].v, 0x88);
    t[i + c + 4] = _mm512_shuffle_f32x4(r[i + c].v, r[i + c + 4].v, 0xDD);
  }
  _Pragma("GCC unroll 16") for (int c = 0; c < 8; ++c) {
    r[c].v = _mm512_shuffle_f32x4(t[c], t[c + 8], 0x88);
    r[c + 8].v = _mm512_shuffle_f32x4(t[c], t[c + 8], 0xDD);
  }
}

}  // namespace rapt::RAPT_ISA

#include "kernels/simd/avx512_f64.h"
#include "kernels/simd/log.h"
#include "kernels/simd/normal_cdf.h"
#include "kernels/simd/scaled_exp2.h"
#include "kernels/simd/tanh.h"
#if defined(RAPT_WEIGHTS_OF_16_BITS)
#include "kernels/simd/short_exp2.h"
#endif

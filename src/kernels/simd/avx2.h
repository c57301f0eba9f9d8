#pragma once
// The vocabulary for AVX2 + FMA + F16C: F is 8 floats, D (avx2_f64.h) 4 doubles.
// Meanings: simd/plain.h.
#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/polynomials.h"

namespace rapt::isa_avx2 {

// Comparisons give a mask as wide as their lanes (FloatMask, DoubleMask), which selects at once. M
// serves both widths: `select` spreads its bits over the lanes.
struct M {
  uint64_t bits;
};

struct F {
  using Element = float;
  static constexpr int64_t kLanes = 8;
  static constexpr int kRegisters = 16;
  static constexpr int kMaxVectors = 2;
  static constexpr int kLongVectors = 2;
  __m256 v;

  static F load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static F load_first(const float* p, int64_t n) { return {_mm256_maskload_ps(p, first(n))}; }
  static F load_bf16(const uint16_t* p) {
    return widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F load_pairs(const uint16_t* p) {
    return {_mm256_loadu_ps(reinterpret_cast<const float*>(p))};
  }
  static F load_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  static F load_first_bf16(const uint16_t* p, int64_t n) { return widen_bf16(first_halves(p, n)); }
  static F load_first_f16(const uint16_t* p, int64_t n) {
    return {_mm256_cvtph_ps(first_halves(p, n))};
  }
  static F set(double x) { return {_mm256_set1_ps(static_cast<float>(x))}; }
  static F splat(float x) { return {_mm256_set1_ps(x)}; }
  static __m256i first(int64_t n) {
    const int lanes = static_cast<int>(n < 0 ? 0 : n > kLanes ? kLanes : n);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F widen_bf16(__m128i halves) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16))};
  }
  // AVX2 masks no 16-bit elements, so they go through memory.
  static __m128i first_halves(const uint16_t* p, int64_t n) {
    alignas(16) uint16_t halves[kLanes] = {};
    for (int64_t i = 0; i < kLanes && i < n; ++i) halves[i] = p[i];
    return _mm_load_si128(reinterpret_cast<const __m128i*>(halves));
  }
};

inline void store(float* p, F a) { _mm256_storeu_ps(p, a.v); }
inline void store_first(float* p, F a, int64_t n) { _mm256_maskstore_ps(p, F::first(n), a.v); }
// BFloat16::from on every lane.
inline __m128i round_bf16(F a) {
  const __m256i u = _mm256_castps_si256(a.v), one = _mm256_set1_epi32(1);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), one);
  const __m256i up = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7FFF)), odd);
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q));
  const __m256i rounded = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
}
inline __m128i round_f16(F a) { return _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT); }
inline void store_bf16(uint16_t* p, F a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), round_bf16(a));
}
inline void store_f16(uint16_t* p, F a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), round_f16(a));
}
inline void store_first_halves(uint16_t* p, __m128i a, int64_t n) {
  alignas(16) uint16_t halves[F::kLanes];
  _mm_store_si128(reinterpret_cast<__m128i*>(halves), a);
  for (int64_t i = 0; i < F::kLanes && i < n; ++i) p[i] = halves[i];
}
inline void store_first_bf16(uint16_t* p, F a, int64_t n) {
  store_first_halves(p, round_bf16(a), n);
}
inline void store_first_f16(uint16_t* p, F a, int64_t n) { store_first_halves(p, round_f16(a), n); }
inline F lower_bf16(F pairs) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs.v), 16))};
}
inline F upper_bf16(F pairs) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000));
  return {_mm256_and_ps(pairs.v, _mm256_castsi256_ps(upper))};
}
inline F add(F a, F b) { return {_mm256_add_ps(a.v, b.v)}; }
inline F sub(F a, F b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline F mul(F a, F b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline F div(F a, F b) { return {_mm256_div_ps(a.v, b.v)}; }
inline F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline F max(F a, F b) { return {_mm256_max_ps(a.v, b.v)}; }
inline F abs(F a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
inline F copy_sign(F magnitude, F sign) {
  return {_mm256_or_ps(abs(magnitude).v, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign.v))};
}

// What a comparison of F gives.
struct FloatMask {
  __m256 m;  // all bits of a lane set or clear
  operator M() const { return {static_cast<uint64_t>(_mm256_movemask_ps(m))}; }
};
inline FloatMask equal(F a, F b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
inline FloatMask not_at_most(F a, F b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NLE_UQ)}; }
inline bool any(M m) { return m.bits != 0; }
inline uint64_t bits_of(M m) { return m.bits; }
inline M mask_of(uint64_t bits) { return {bits}; }
inline F select(FloatMask m, F yes, F no) { return {_mm256_blendv_ps(no.v, yes.v, m.m)}; }
inline F select(M m, F yes, F no) {
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i word = _mm256_set1_epi32(static_cast<int>(m.bits & 0xFF));
  const __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(word, lane), lane);
  return select(FloatMask{_mm256_castsi256_ps(set)}, yes, no);
}

// 2^x = 2^f 2^n ; n enters through the exponent bits. For x <= 127,
// which is all that a normaliser asks for. Below -126 the result is 0 (no gradual underflow): the
// comparison also discards what rounding and conversion make of -inf. A NaN is not below and stays,
// its conversion being 2^31, which the shift pushes out.
inline F exp2(F x) {
  const __m256 n = _mm256_round_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const F p = exp2_of_fraction(F{_mm256_sub_ps(x.v, n)});
  const __m256i scaled =
      _mm256_add_epi32(_mm256_castps_si256(p.v), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23));
  const __m256 too_low = _mm256_cmp_ps(x.v, _mm256_set1_ps(-126.0f), _CMP_LT_OQ);
  return {_mm256_andnot_ps(too_low, _mm256_castsi256_ps(scaled))};
}
inline F split(F x, F& exponent) {
  // Denormal numbers become normal by 2^24, which is taken back from the exponent.
  const __m256 tiny = _mm256_cmp_ps(x.v, _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
  const __m256 scaled = _mm256_blendv_ps(x.v, _mm256_mul_ps(x.v, _mm256_set1_ps(0x1p24f)), tiny);
  const __m256 bias = _mm256_blendv_ps(_mm256_set1_ps(127), _mm256_set1_ps(127 + 24), tiny);
  const __m256i bits = _mm256_castps_si256(scaled);
  exponent.v = _mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(bits, 23)), bias);
  const __m256i fraction = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFF));
  return {_mm256_or_ps(_mm256_castsi256_ps(fraction), _mm256_set1_ps(1.0f))};
}

struct U {
  static constexpr int64_t kLanes = 4;
  __m256i v;

  static U load(const uint64_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  static U splat(uint64_t x) { return {_mm256_set1_epi64x(static_cast<int64_t>(x))}; }
};
inline void store(uint64_t* p, U a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
inline U mul_halves(U a, U b) { return {_mm256_mul_epu32(a.v, b.v)}; }
inline U upper_half(U a) { return {_mm256_srli_epi64(a.v, 32)}; }
inline U exclusive_or(U a, U b) { return {_mm256_xor_si256(a.v, b.v)}; }
inline U exclusive_or(U a, U b, U c) {
  U early = exclusive_or(b, c);
  asm("" : "+x"(early.v));  // or compilers change the order
  return exclusive_or(a, early);
}
// There is no unsigned comparison: x is at least the bound where it is the larger of the two.
inline uint64_t at_least(U even, U odd, uint32_t bound) {
  const __m256i least = _mm256_set1_epi32(static_cast<int>(bound));
  const __m256i x = _mm256_blend_epi32(even.v, _mm256_slli_epi64(odd.v, 32), 0xAA);
  const __m256i yes = _mm256_cmpeq_epi32(_mm256_max_epu32(x, least), x);
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(yes)));
}

// One lane after the other: there is no instruction for it.
inline int64_t compress(uint64_t bits, F a, const int32_t* numbers, float* to,
                        int32_t* numbers_to) {
  float lane[F::kLanes];
  int32_t chosen[F::kLanes];
  store(lane, a);
  for (int64_t i = 0; i < F::kLanes; ++i) chosen[i] = numbers[i];
  int64_t count = 0;
  for (int64_t i = 0; i < F::kLanes; ++i) {
    to[count] = lane[i], numbers_to[count] = chosen[i];
    count += static_cast<int64_t>((bits >> i) & 1);
  }
  return count;
}

inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
inline void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
inline void touch(const void* p) { (void)*static_cast<const volatile char*>(p); }
inline void pin(F& x) { asm("" : "+x"(x.v)); }

// 8 x 8: pairs and quadruples inside the 128-bit halves, then the halves.
inline __attribute__((always_inline)) void transpose(F (&r)[8]) {
  __m256 t[8];
  _Pragma("GCC unroll 16") for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i].v, r[i + 1].v);
    t[i + 1] = _mm256_unpackhi_ps(r[i].v, r[i + 1].v);
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < 8; i += 4)
      _Pragma("GCC unroll 16") for (int h = 0; h < 2; ++h) {
    const __m256d a = _mm256_castps_pd(t[i + h]), b = _mm256_castps_pd(t[i + h + 2]);
    r[i + 2 * h].v = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
    r[i + 2 * h + 1].v = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
  }
  _Pragma("GCC unroll 16") for (int c = 0; c < 4; ++c) {
    t[c] = _mm256_permute2f128_ps(r[c].v, r[c + 4].v, 0x20);
    t[c + 4] = _mm256_permute2f128_ps(r[c].v, r[c + 4].v, 0x31);
  }
  _Pragma("GCC unroll 16") for (int c = 0; c < 8; ++c) r[c].v = t[c];
}

}  // namespace rapt::isa_avx2

#include "kernels/simd/avx2_f64.h"
#include "kernels/simd/log.h"
#include "kernels/simd/normal_cdf.h"
#include "kernels/simd/tanh.h"

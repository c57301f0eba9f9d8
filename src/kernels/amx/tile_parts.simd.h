#pragma once
// Represents numbers as sums of bf16 parts, most significant part first.
//
//   bf16   itself
//   f32    three parts of 8 bits each, exactly; two parts for Precision::fast, within 2^-17
//   f16    two parts, exactly
//
// Rows are rounded part by part, so that the rest is below 2^-8 of the part before. Weights are
// cut, which saves an instruction, except for the last part, which is rounded. Three parts hold a
// weight exactly (8 + 8 + 8 bits), fewer parts within half a unit of the last one.
//
// Products of parts are computed whose ranks sum to less than kRanks. For f32 these are six of
// nine; the others are below 2^-22 of the product, and far below for random numbers.
#include "kernels/vector/bf16_pairs.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// 32 bf16: a row of a tile.
using Run = __m512i;

RAPT_INLINE Run rounded(F low, F high) {
  return reinterpret_cast<Run>(_mm512_cvtne2ps_pbh(high.v, low.v));
}
RAPT_INLINE F low_of(Run run) { return F::widen_bf16(_mm512_castsi512_si256(run)); }
RAPT_INLINE F high_of(Run run) { return F::widen_bf16(_mm512_extracti64x4_epi64(run, 1)); }

template <int Parts>
RAPT_INLINE void round_parts(F low, F high, Run (&parts)[Parts]) {
  UNROLL_FOR (int p = 0; p < Parts; ++p) {
    parts[p] = rounded(low, high);
    low = sub(low, low_of(parts[p]));
    high = sub(high, high_of(parts[p]));
  }
}

// The upper halves of the lanes, others 0.
RAPT_INLINE F cut(F x) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x.v), upper))};
}
// Must a NaN stay a NaN? It need not where something else propagates it.
enum class Nan : uint8_t { stays, may_go };
// Rounds x so that its upper half is x to nearest, ties away from 0. An integer addition has two
// ports while tiles are at work; conversions have one, which multiplications need. A carry would
// turn some NaN into zero.
template <Nan kNan>
RAPT_INLINE F half_up(F x) {
  const __m512i u = _mm512_castps_si512(x.v), half = _mm512_set1_epi32(0x8000);
  if constexpr (kNan == Nan::may_go) {
    return {_mm512_castsi512_ps(_mm512_add_epi32(u, half))};
  } else {
    const __mmask16 number = _mm512_cmp_ps_mask(x.v, x.v, _CMP_ORD_Q);
    return {_mm512_castsi512_ps(_mm512_mask_add_epi32(u, number, u, half))};
  }
}
// The parts of weights, each in the upper half of its lane; the last is rounded.
template <Nan kNan, int Parts>
RAPT_INLINE void cut_parts(F x, F (&parts)[Parts]) {
  UNROLL_FOR (int p = 0; p + 1 < Parts; ++p) {
    parts[p] = cut(x);
    x = sub(x, parts[p]);
  }
  parts[Parts - 1] = half_up<kNan>(x);
}
// The upper halves of the lanes of two vectors in turn: one permutation, into the other vector.
RAPT_INLINE Run in_turn(F even, F odd) {
  const __m512i upper = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_mask_permutexvar_epi16(_mm512_castps_si512(odd.v), 0x55555555, upper,
                                       _mm512_castps_si512(even.v));
}

// How a storage type is multiplied: parts of a row and of weights, ranks, and how 32 elements of a
// row become parts, 0 from the n-th on.
struct BFloat16Parts {
  using Stored = uint16_t;
  static constexpr int kParts = 1, kWeightParts = 1, kRanks = 1;
  static constexpr float kWeightScale = 1;
  static RAPT_INLINE void take(const Stored* row, int64_t stride, int64_t n, Run (&parts)[1]) {
    parts[0] = run_of(row, stride, n);
  }
};

// Can the route multiply x as parts? Zero and numbers between 2^-48 and 2^40 qualify: products of
// parts are at least 2^-48 2^-48 2^-16 and do not underflow, products of two rows stay below 2^80
// times their length, and with weights (kWeightScale) overflow is far.
RAPT_INLINE __mmask16 is_inside(F x) {
  constexpr int kLeast = (127 - 48) << 23, kMost = (127 + 40) << 23;
  const __m512i u = _mm512_and_si512(_mm512_castps_si512(x.v), _mm512_set1_epi32(0x7FFFFFFF));
  const __m512i above = _mm512_sub_epi32(u, _mm512_set1_epi32(kLeast));
  return static_cast<__mmask16>(_mm512_cmple_epu32_mask(above, _mm512_set1_epi32(kMost - kLeast)) |
                                _mm512_testn_epi32_mask(u, u));
}
RAPT_INLINE F only(__mmask16 these, F x) { return {_mm512_maskz_mov_ps(these, x.v)}; }

// The same for elements that S widens to f32 first (storage.simd.h). Elements that do not qualify
// are packed as 0.
template <class S, int Parts, int WeightParts>
struct FloatParts {
  using Stored = typename S::Stored;
  static constexpr int kParts = Parts, kWeightParts = WeightParts, kRanks = WeightParts;
  static_assert(kParts <= kRanks);
  // The factor of weights before they are cut, by which sums of their products are divided: the
  // parts of the smallest normal weight are normal, too.
  static constexpr float kWeightScale = 0x1p32f;
  static RAPT_INLINE void widen(const Stored* row, int64_t stride, int64_t n, F& low, F& high) {
    Stored dense[32] = {};
    if (stride != 1) {
      for (int64_t d = 0; d < n && d < 32; ++d) dense[d] = row[d * stride];
      row = dense;
    }
    low = S::load_first(row, n), high = S::load_first(row + 16, n - 16);
  }
  static RAPT_INLINE void take(const Stored* row, int64_t stride, int64_t n, Run (&parts)[Parts]) {
    F low, high;
    widen(row, stride, n, low, high);
    round_parts<Parts>(only(is_inside(low), low), only(is_inside(high), high), parts);
  }
};

}  // namespace
}  // namespace rapt::RAPT_ISA

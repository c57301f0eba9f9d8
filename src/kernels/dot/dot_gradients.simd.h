#pragma once
// The sums of the backward pass on the dot route (dot_bf16.cpp):
//
//   dV += P^T dO, dK += dS^T Q     a pair is two queries, adjacent in a row of P^T,
//                                  rounded to bf16: one 32-bit broadcast. Rows of dO and Q are
//                                  interleaved two by two, once per unit and walk.
//
// Lanes are head dimensions, as in gradients.simd.h. dP^T = V dO^T is a product like the scores,
// and dQ^T += K^T dS^T like the output.
#include "kernels/dot/bf16_pairs.simd.h"
#include "kernels/kernel_table.h"

namespace rapt::RAPT_ISA {
namespace {

// The gradients of `Rows` keys in `Vectors` vectors of dimensions; the last one has `last` lanes in
// use.
template <int Rows, int Vectors, bool kNarrow>
RAPT_INLINE void add_pair_rows(const GradientSpan<float>* spans, int64_t span_count, int64_t key,
                               int64_t dim, int64_t last, float* gradient, int64_t stride) {
  const __mmask16 some = F::first(last);
  __m512 acc[Rows][Vectors];
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[r][x] = _mm512_setzero_ps();
  for (int64_t s = 0; s < span_count; ++s) {
    const GradientSpan<float>& span = spans[s];
    const int64_t queries = span.queries, row_stride = span.row_stride;
    const auto* weights = static_cast<const uint16_t*>(span.weights) + key * queries;
    const auto* row = static_cast<const Pair*>(span.rows) + dim;
    const int64_t pairs = half_of(span.count);
    for (int64_t i = 0; i < pairs; ++i, row += row_stride) {
      __m512i part[Vectors];
      UNROLL_FOR (int x = 0; x < Vectors; ++x) {
        part[x] = kNarrow && x + 1 == Vectors ? _mm512_maskz_loadu_epi32(some, row + 16 * x)
                                              : _mm512_loadu_si512(row + 16 * x);
        asm("" : "+v"(part[x]));  // stays in a register: see pin()
      }
      UNROLL_FOR (int r = 0; r < Rows; ++r) {
        const __m512i pair = pair_at(weights + r * queries + 2 * i);
        UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[r][x] = dot(acc[r][x], pair, part[x]);
      }
    }
  }
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int x = 0; x < Vectors; ++x) {
      float* out = gradient + r * stride + 16 * x;
      if (kNarrow && x + 1 == Vectors)
        _mm512_mask_storeu_ps(out, some,
                              _mm512_add_ps(_mm512_maskz_loadu_ps(some, out), acc[r][x]));
      else
        _mm512_storeu_ps(out, _mm512_add_ps(_mm512_loadu_ps(out), acc[r][x]));
    }
}

template <int Vectors, bool kNarrow>
RAPT_NOINLINE void add_pair_columns(const GradientSpan<float>* spans, int64_t span_count,
                                    int64_t keys, int64_t dim, int64_t last, float* gradient,
                                    int64_t stride) {
  constexpr int kKeys = 6;  // 24 accumulators, 4 vectors of rows and a broadcast fit
  int64_t j = 0;
  for (; j + kKeys <= keys; j += kKeys)
    add_pair_rows<kKeys, Vectors, kNarrow>(spans, span_count, j, dim, last, gradient + j * stride,
                                           stride);
  for (; j + 2 <= keys; j += 2)
    add_pair_rows<2, Vectors, kNarrow>(spans, span_count, j, dim, last, gradient + j * stride,
                                       stride);
  if (j < keys)
    add_pair_rows<1, Vectors, kNarrow>(spans, span_count, j, dim, last, gradient + j * stride,
                                       stride);
}

RAPT_NOINLINE void dot_add_to_keys(const GradientSpan<float>* spans, int64_t span_count,
                                   int64_t keys, int64_t dims, float* gradient,
                                   int64_t stride) noexcept {
  int64_t d = 0;
  for (; d + 64 <= dims; d += 64)
    add_pair_columns<4, false>(spans, span_count, keys, d, 16, gradient + d, stride);
  for (; d + 16 <= dims; d += 16)
    add_pair_columns<1, false>(spans, span_count, keys, d, 16, gradient + d, stride);
  if (d < dims)
    add_pair_columns<1, true>(spans, span_count, keys, d, dims - d, gradient + d, stride);
}

RAPT_NOINLINE void dot_add_to_keys_of_bits(const GradientSpan<float>* spans, int64_t span_count,
                                           int64_t keys, int64_t dims, float* gradient,
                                           int64_t stride) noexcept {
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t d = 0; d < dims; d += 16) {
      const __mmask16 some = F::first(dims - d);
      __m512 acc = _mm512_setzero_ps();
      for (int64_t s = 0; s < span_count; ++s) {
        const GradientSpan<float>& span = spans[s];
        const auto* weights = static_cast<const uint16_t*>(span.weights) + j * span.queries;
        const auto* rows = static_cast<const Pair*>(span.rows) + d;
        const uint64_t seen = span.bits ? span.bits[j] : ~uint64_t{0};
        for (int64_t i = 0; i < span.count; i += 2) {
          // The half of a masked query becomes 0, as if its row were finite.
          const uint64_t both = seen >> i & 3;
          const uint32_t halves = (both & 1 ? 0xFFFFu : 0) | (both & 2 ? 0xFFFF0000u : 0);
          const __m512i part =
              _mm512_and_si512(_mm512_maskz_loadu_epi32(some, rows + i / 2 * span.row_stride),
                               _mm512_set1_epi32(static_cast<int>(halves)));
          acc = dot(acc, pair_at(weights + i), part);
        }
      }
      float* out = gradient + j * stride + d;
      _mm512_mask_storeu_ps(out, some, _mm512_add_ps(_mm512_maskz_loadu_ps(some, out), acc));
    }
}

// [keys][queries], each weight rounded to bf16.
RAPT_NOINLINE void dot_round_for_keys(const float* weights, int64_t keys, int64_t queries,
                                      void* to) noexcept {
  auto* rounded = static_cast<uint16_t*>(to);
  const int64_t count = keys * queries;  // a multiple of 16
  int64_t i = 0;
  for (; i + 32 <= count; i += 32)
    _mm512_storeu_si512(rounded + i,
                        reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(
                            _mm512_loadu_ps(weights + i + 16), _mm512_loadu_ps(weights + i))));
  if (i < count)
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(rounded + i),
        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(weights + i))));
}

}  // namespace
}  // namespace rapt::RAPT_ISA

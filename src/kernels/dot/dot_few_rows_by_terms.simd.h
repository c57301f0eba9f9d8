#pragma once
// Products of layers for few rows by the dot route (dot_bf16.cpp) with a weight [terms, columns],
// which is read in the order of its addresses. The sums of all columns stay in a cache, as in
// few_rows_by_terms() of vector/few_rows.simd.h; columns fill the lanes, in pairs of terms.
#include "kernels/dot/bf16_pairs.simd.h"
#include "kernels/vector/bf16_runs.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// acc [Rows][columns] += up to 2 `Pairs` terms of the weight; kBegins: acc = these. The terms after
// them are asked for into the L2: hardware prefetchers begin anew at each term.
template <int Rows, int Pairs, bool kBegins>
RAPT_NOINLINE void dot_add_terms(const uint16_t* x, int64_t x_stride, const uint16_t* weight,
                                 int64_t term_stride, int64_t columns, int64_t terms, float* acc,
                                 int64_t acc_stride) {
  const __m512i low = interleaving(0), high = interleaving(16);
  __m512i factor[Rows][Pairs];
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int p = 0; p < Pairs; ++p) factor[r][p] = pair_at(x + r * x_stride + 2 * p);
  for (int64_t c = 0; c < columns; c += 32, weight += 32, acc += 32) {
    UNROLL_FOR (int t = 0; t < 2 * Pairs; ++t) prefetch_far(weight + (2 * Pairs + t) * term_stride);
    const uint32_t some = first_of_32(columns - c);
    __m512 sum[Rows][2];
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      UNROLL_FOR (int h = 0; h < 2; ++h)
        sum[r][h] = kBegins ? _mm512_setzero_ps() : _mm512_loadu_ps(acc + r * acc_stride + 16 * h);
    UNROLL_FOR (int p = 0; p < Pairs; ++p) {
      const uint16_t* const term = weight + 2 * p * term_stride;
      const __m512i even = load_run_where(some, term);
      const __m512i odd =
          2 * p + 1 < terms ? load_run_where(some, term + term_stride) : _mm512_setzero_si512();
      const __m512i pairs[2] = {_mm512_permutex2var_epi16(even, low, odd),
                                _mm512_permutex2var_epi16(even, high, odd)};
      UNROLL_FOR (int r = 0; r < Rows; ++r)
        UNROLL_FOR (int h = 0; h < 2; ++h) sum[r][h] = dot(sum[r][h], factor[r][p], pairs[h]);
    }
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      UNROLL_FOR (int h = 0; h < 2; ++h) _mm512_storeu_ps(acc + r * acc_stride + 16 * h, sum[r][h]);
  }
}

// out [Rows][columns] = the products, in sums of `block` terms, an even number.
template <int Rows>
RAPT_NOINLINE void dot_few_rows_by_terms_of(const uint16_t* x, int64_t x_stride,
                                            const uint16_t* weight, int64_t term_stride,
                                            int64_t columns, int64_t dims, int64_t block,
                                            float* block_sums, float* out, int64_t out_stride) {
  constexpr int kPairs = 2;  // more would be lines of one set where terms are multiples of 4 KiB
  for (int64_t r = 0; r < Rows; ++r)
    for (int64_t c = 0; c < columns; c += 16)
      _mm512_storeu_ps(out + r * out_stride + c, _mm512_setzero_ps());
  for (int64_t begin = 0; begin < dims; begin += block) {
    const int64_t end = dims < begin + block ? dims : begin + block;
    for (int64_t k = begin, some; k < end; k += some) {
      some = end - k >= 2 * kPairs ? 2 * kPairs : end - k >= 2 ? 2 : 1;
      const bool begins = k == begin;
      const auto add_terms =
          some > 2
              ? (begins ? dot_add_terms<Rows, kPairs, true> : dot_add_terms<Rows, kPairs, false>)
              : (begins ? dot_add_terms<Rows, 1, true> : dot_add_terms<Rows, 1, false>);
      add_terms(x + k, x_stride, weight + k * term_stride, term_stride, columns, some, block_sums,
                out_stride);
    }
    for (int64_t r = 0; r < Rows; ++r)
      for (int64_t c = 0; c < columns; c += 16) {
        float* const to = out + r * out_stride + c;
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to),
                                           _mm512_loadu_ps(block_sums + r * out_stride + c)));
      }
  }
}

void dot_few_rows_by_terms(const void* left, int64_t x_stride, int64_t rows, const void* right,
                           int64_t term_stride, int64_t columns, int64_t dims, int64_t block,
                           float* block_sums, float* out, int64_t out_stride) noexcept {
  const auto* x = static_cast<const uint16_t*>(left);
  const auto* weight = static_cast<const uint16_t*>(right);
  for (int64_t r = 0, some; r < rows; r += some) {
    some = rows - r >= 4 ? 4 : rows - r >= 2 ? 2 : 1;
    const auto multiply = some == 4   ? dot_few_rows_by_terms_of<4>
                          : some == 2 ? dot_few_rows_by_terms_of<2>
                                      : dot_few_rows_by_terms_of<1>;
    multiply(x + r * x_stride, x_stride, weight, term_stride, columns, dims, block, block_sums,
             out + r * out_stride, out_stride);
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

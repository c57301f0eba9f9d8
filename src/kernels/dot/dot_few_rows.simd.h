#pragma once
// Products of layers for few rows by the dot route (dot_bf16.cpp): rows of the weight fill the
// lanes. Blocks of 16 rows x 16 pairs of terms are transposed in registers.
#include "kernels/dot/bf16_pairs.simd.h"
#include "kernels/vector/bf16_runs.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// Where a weight is asked for into the L2: in the order of its addresses, behind the next groups of
// rows, or along rows that are so long that these would fill it (vector/few_rows.simd.h).
constexpr int64_t kGroupAhead = 16 << 10, kRowAhead = 128;  // elements
constexpr int64_t kMostDimsInOrder = 4096;

// acc [Rows] += up to 32 terms of 16 rows of the weight, `row_stride` apart. Others than `rows` and
// `terms` are not read.
template <bool kWhole, int Rows>
RAPT_INLINE void dot_weight_block(const uint16_t* x, int64_t x_stride, const uint16_t* weight,
                                  int64_t row_stride, int64_t rows, int64_t terms,
                                  const uint16_t* ahead, int64_t ahead_stride,
                                  __m512 (&acc)[Rows]) {
  F w[16];
  UNROLL_FOR (int i = 0; i < 16; ++i) {
    const uint16_t* const row = weight + i * row_stride;
    w[i].v = _mm512_castsi512_ps(kWhole     ? _mm512_loadu_si512(row)
                                 : i < rows ? load_run_where(first_of_32(terms), row)
                                            : _mm512_setzero_si512());
    if (kWhole) prefetch_far(ahead + i * ahead_stride);
  }
  transpose(w);
  UNROLL_FOR (int y = 0; y < 16; ++y) {
    if (!kWhole && 2 * y >= terms) break;
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      acc[r] = dot(acc[r], pair_at(x + r * x_stride + 2 * y), _mm512_castps_si512(w[y].v));
  }
}

// out [Rows][16 or `rows`] = the products with rows of the weight, in sums of `block` terms. Two
// groups of 16 hide the latency of each other's chains.
template <bool kWhole, int Rows, int Groups>
RAPT_INLINE void dot_weight_rows(const uint16_t* x, int64_t x_stride, const uint16_t* weight,
                                 int64_t row_stride, int64_t rows, int64_t dims, int64_t block,
                                 float* out, int64_t out_stride) {
  __m512 total[Groups][Rows];
  UNROLL_FOR (int g = 0; g < Groups; ++g)
    UNROLL_FOR (int r = 0; r < Rows; ++r) total[g][r] = _mm512_setzero_ps();
  const bool in_order = dims <= kMostDimsInOrder;
  const uint16_t* ahead = weight + 16 * Groups * row_stride + kGroupAhead;
  for (int64_t begin = 0; begin < dims; begin += block) {
    const int64_t end = dims < begin + block ? dims : begin + block;
    __m512 acc[Groups][Rows];
    UNROLL_FOR (int g = 0; g < Groups; ++g)
      UNROLL_FOR (int r = 0; r < Rows; ++r) acc[g][r] = _mm512_setzero_ps();
    for (int64_t d = begin; d < end; d += 32)
      UNROLL_FOR (int g = 0; g < Groups; ++g) {
        const uint16_t* const now = weight + 16 * g * row_stride + d;
        dot_weight_block<kWhole>(x + d, x_stride, now, row_stride, rows - 16 * g, end - d,
                                 in_order ? ahead : now + kRowAhead, in_order ? 32 : row_stride,
                                 acc[g]);
        ahead += 16 * 32;
      }
    UNROLL_FOR (int g = 0; g < Groups; ++g)
      UNROLL_FOR (int r = 0; r < Rows; ++r) total[g][r] = _mm512_add_ps(total[g][r], acc[g][r]);
  }
  UNROLL_FOR (int g = 0; g < Groups; ++g)
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      _mm512_mask_storeu_ps(out + r * out_stride + 16 * g, F::first(rows - 16 * g), total[g][r]);
}

template <int Rows>
RAPT_NOINLINE void dot_few_rows_of(const uint16_t* x, int64_t x_stride, const uint16_t* weight,
                                   int64_t row_stride, int64_t columns, int64_t dims, int64_t block,
                                   float* out, int64_t out_stride) {
  int64_t c = 0;
  if (dims % 32 == 0)
    for (; c + 32 <= columns; c += 32)
      dot_weight_rows<true, Rows, 2>(x, x_stride, weight + c * row_stride, row_stride, 32, dims,
                                     block, out + c, out_stride);
  for (; c < columns; c += 16)
    dot_weight_rows<false, Rows, 1>(x, x_stride, weight + c * row_stride, row_stride, columns - c,
                                    dims, block, out + c, out_stride);
}

void dot_few_rows(const void* left, int64_t x_stride, int64_t rows, const void* right,
                  int64_t row_stride, int64_t columns, int64_t dims, int64_t block, float* out,
                  int64_t out_stride) noexcept {
  const auto* x = static_cast<const uint16_t*>(left);
  const auto* weight = static_cast<const uint16_t*>(right);
  for (int64_t r = 0, some; r < rows; r += some) {
    some = rows - r >= 4 ? 4 : rows - r >= 2 ? 2 : 1;
    const auto multiply = some == 4   ? dot_few_rows_of<4>
                          : some == 2 ? dot_few_rows_of<2>
                                      : dot_few_rows_of<1>;
    multiply(x + r * x_stride, x_stride, weight, row_stride, columns, dims, block,
             out + r * out_stride, out_stride);
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

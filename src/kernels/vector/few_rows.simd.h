#pragma once
// Products of few rows (rapt/product.h), which read a weight once, where it lies: with its rows or
// its terms dense.
#include "kernels/vector/rows.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// How far ahead rows of the weight are prefetched, in bytes. Behind the end of a row that is the
// next one, where rows lie side by side.
constexpr int64_t kWeightBytesAhead = 256;

// A weight in memory is asked for into the L2 in the order of its addresses, this far ahead of the
// next groups of rows, which are multiplied in another order. Up to this size of all groups that
// are multiplied together they leave room in an L2 of 1 MiB.
constexpr int64_t kGroupBytesAhead = 32 << 10;
constexpr int64_t kMostGroupBytes = 256 << 10;

// How rows of a weight are prefetched.
enum class Prefetch : uint8_t { along_rows, in_order };

// Sums of `Rows` rows of x with kLanes rows of the weight, which lie in the lanes: blocks of
// kLanes x kLanes elements are transposed in registers. Each sum is one chain of FMAs per block of
// `block` terms, as in multiply_tiles(), so that a row has the same bits here and there.
template <class V, class S, int Rows>
RAPT_INLINE void weight_lanes(const typename V::Element* x, int64_t x_stride,
                              const typename S::Stored* weight, int64_t row_stride, int64_t columns,
                              int64_t dims, int64_t block, typename V::Element* out,
                              int64_t out_stride) {
  V total[Rows];
  UNROLL_FOR (int r = 0; r < Rows; ++r) total[r] = V::splat(0);
  for (int64_t begin = 0; begin < dims; begin += block) {
    const int64_t end = smaller(begin + block, dims);
    V acc[Rows];
    UNROLL_FOR (int r = 0; r < Rows; ++r) acc[r] = V::splat(0);
    for (int64_t d = begin; d < end; d += V::kLanes) {
      const int64_t some = smaller(end - d, V::kLanes);
      V w[V::kLanes];
      load_transposed<V, S>(weight + d, row_stride, 1, columns, some, w);
      UNROLL_FOR (int y = 0; y < V::kLanes; ++y) {
        if (y >= some) break;
        UNROLL_FOR (int r = 0; r < Rows; ++r)
          acc[r] = fma(V::splat(x[r * x_stride + d + y]), w[y], acc[r]);
      }
    }
    UNROLL_FOR (int r = 0; r < Rows; ++r) total[r] = add(total[r], acc[r]);
  }
  UNROLL_FOR (int r = 0; r < Rows; ++r) store_first(out + r * out_stride, total[r], columns);
}

// The terms of a block that is transposed in registers. A pair of bf16 is transposed as one element
// of 32 bits, which halves the number of shuffles.
template <class V, class S>
constexpr int64_t kWholeTerms = S::kPairs ? 2 * V::kLanes : V::kLanes;

// acc [Rows] += kWholeTerms terms of kLanes rows of the weight, `lane_stride` apart.
template <class V, class S, int Rows, Prefetch P>
RAPT_INLINE void add_whole_terms(const typename V::Element* x, int64_t x_stride,
                                 const typename S::Stored* rows, int64_t lane_stride,
                                 const typename S::Stored* ahead, bool begins_line,
                                 V (&acc)[Rows]) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(typename S::Stored));
  constexpr int64_t kAhead = kWeightBytesAhead / kSize;
  V w[V::kLanes];
  UNROLL_FOR (int i = 0; i < V::kLanes; ++i) w[i] = S::load_whole(rows + i * lane_stride);
  if constexpr (P == Prefetch::in_order) {
    constexpr int64_t kBytes = V::kLanes * kWholeTerms<V, S> * kSize;
    UNROLL_FOR (int64_t i = 0; i < kBytes; i += 64) prefetch_far(ahead + i / kSize);
  } else if (begins_line) {
    UNROLL_FOR (int i = 0; i < V::kLanes; ++i) prefetch(rows + i * lane_stride + kAhead);
  }
  transpose(w);
  const auto add_term = [&](V column, int64_t term) __attribute__((always_inline)) {
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      acc[r] = fma(V::splat(x[r * x_stride + term]), column, acc[r]);
  };
  UNROLL_FOR (int y = 0; y < V::kLanes; ++y)
    if constexpr (S::kPairs) {
      add_term(lower_bf16(w[y]), 2 * y);
      add_term(upper_bf16(w[y]), 2 * y + 1);
    } else {
      add_term(w[y], y);
    }
}

// total [Groups][Rows] = the same for Groups kLanes rows of the weight, `lane_stride` apart. All
// blocks are whole: `dims` and `block` are multiples of kWholeTerms.
template <class V, class S, int Rows, int Groups, Prefetch P = Prefetch::along_rows>
RAPT_INLINE void whole_weight_lanes(const typename V::Element* x, int64_t x_stride,
                                    const typename S::Stored* weight, int64_t lane_stride,
                                    int64_t dims, int64_t block, V (&total)[Groups][Rows]) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(typename S::Stored));
  constexpr int64_t kLine = 64 / kSize;
  const auto* ahead = weight + Groups * V::kLanes * lane_stride + kGroupBytesAhead / kSize;
  UNROLL_FOR (int g = 0; g < Groups; ++g)
    UNROLL_FOR (int r = 0; r < Rows; ++r) total[g][r] = V::splat(0);
  for (int64_t begin = 0; begin < dims; begin += block) {
    const int64_t end = smaller(begin + block, dims);
    V acc[Groups][Rows];
    UNROLL_FOR (int g = 0; g < Groups; ++g)
      UNROLL_FOR (int r = 0; r < Rows; ++r) acc[g][r] = V::splat(0);
    for (int64_t d = begin; d < end; d += kWholeTerms<V, S>)
      UNROLL_FOR (int g = 0; g < Groups; ++g) {
        add_whole_terms<V, S, Rows, P>(x + d, x_stride, weight + g * V::kLanes * lane_stride + d,
                                       lane_stride, ahead, d % kLine == 0, acc[g]);
        ahead += V::kLanes * kWholeTerms<V, S>;
      }
    UNROLL_FOR (int g = 0; g < Groups; ++g)
      UNROLL_FOR (int r = 0; r < Rows; ++r) total[g][r] = add(total[g][r], acc[g][r]);
  }
}

// Two groups of neighbouring rows at once, whose chains hide each other's latency. Returns the
// columns that are computed.
template <class V, class S, int Rows, Prefetch P, class E = typename V::Element>
RAPT_INLINE int64_t neighbouring_rows(const E* x, int64_t x_stride,
                                      const typename S::Stored* weight, int64_t row_stride,
                                      int64_t columns, int64_t dims, int64_t block, E* out,
                                      int64_t out_stride) {
  int64_t c = 0;
  for (; c + 2 * V::kLanes <= columns; c += 2 * V::kLanes) {
    V total[2][Rows];
    whole_weight_lanes<V, S, Rows, 2, P>(x, x_stride, weight + c * row_stride, row_stride, dims,
                                         block, total);
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      UNROLL_FOR (int g = 0; g < 2; ++g)
        store(out + r * out_stride + c + g * V::kLanes, total[g][r]);
  }
  return c;
}

// The most places at which a weight in memory is read at once: more are read more slowly
// (docs/decisions/products_without_blas.md).
constexpr int kMostStreams = 8;

// A weight in memory: kLanes streams, each of rows that follow one another. New streams every few
// KiB are read more slowly (on the same page).
// Returns the columns that are computed.
template <class V, class S, int Rows, class E = typename V::Element>
RAPT_INLINE int64_t streamed_weight(const E* x, int64_t x_stride, const typename S::Stored* weight,
                                    int64_t row_stride, int64_t columns, int64_t dims,
                                    int64_t block, E* out, int64_t out_stride) {
  const int64_t stream = columns / V::kLanes;
  for (int64_t c = 0; c < stream; ++c) {
    V total[1][Rows];
    whole_weight_lanes<V, S, Rows, 1>(x, x_stride, weight + c * row_stride, stream * row_stride,
                                      dims, block, total);
    for (int64_t r = 0; r < Rows; ++r) {
      E lanes[V::kLanes];
      store(lanes, total[0][r]);
      for (int64_t i = 0; i < V::kLanes; ++i) out[r * out_stride + c + i * stream] = lanes[i];
    }
  }
  return stream * V::kLanes;
}

template <class V, class S, int Rows, class E = typename V::Element>
RAPT_NOINLINE void few_rows_of(const E* x, int64_t x_stride, const typename S::Stored* weight,
                               int64_t row_stride, int64_t columns, int64_t dims, int64_t block,
                               bool in_memory, E* out, int64_t out_stride) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(typename S::Stored));
  int64_t c = 0;
  if (dims % kWholeTerms<V, S> == 0 && dims > 0) {
    if (V::kLanes <= kMostStreams && in_memory)
      c = streamed_weight<V, S, Rows>(x, x_stride, weight, row_stride, columns, dims, block, out,
                                      out_stride);
    else if (in_memory && 2 * V::kLanes * dims * kSize <= kMostGroupBytes)
      c = neighbouring_rows<V, S, Rows, Prefetch::in_order>(x, x_stride, weight, row_stride,
                                                            columns, dims, block, out, out_stride);
    else
      c = neighbouring_rows<V, S, Rows, Prefetch::along_rows>(
          x, x_stride, weight, row_stride, columns, dims, block, out, out_stride);
  }
  for (; c < columns; c += V::kLanes)
    weight_lanes<V, S, Rows>(x, x_stride, weight + c * row_stride, row_stride,
                             smaller(columns - c, V::kLanes), dims, block, out + c, out_stride);
}

// out [rows, columns] = x weight^T, the weight's rows `row_stride` apart and dense. `in_memory`:
// the weight is assumed to be in no cache.
template <class V, class S, class E = typename V::Element>
void few_rows(const E* x, int64_t x_stride, int64_t rows, const void* from, int64_t row_stride,
              int64_t columns, int64_t dims, int64_t block, bool in_memory, E* out,
              int64_t out_stride) noexcept {
  const auto* weight = static_cast<const typename S::Stored*>(from);
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4)
    few_rows_of<V, S, 4>(x + r * x_stride, x_stride, weight, row_stride, columns, dims, block,
                         in_memory, out + r * out_stride, out_stride);
  if (r + 2 <= rows) {
    few_rows_of<V, S, 2>(x + r * x_stride, x_stride, weight, row_stride, columns, dims, block,
                         in_memory, out + r * out_stride, out_stride);
    r += 2;
  }
  if (r < rows)
    few_rows_of<V, S, 1>(x + r * x_stride, x_stride, weight, row_stride, columns, dims, block,
                         in_memory, out + r * out_stride, out_stride);
}

// acc [Rows][columns] += some terms of the weight, from `weight` on; kBegins: acc = the terms. The
// terms after these are asked for into the L2: hardware prefetchers begin anew at each term.
template <class V, class S, int Rows, int Terms, bool kBegins, class E = typename V::Element>
RAPT_NOINLINE void add_terms(const E* x, int64_t x_stride, const typename S::Stored* weight,
                             int64_t term_stride, int64_t columns, E* acc, int64_t acc_stride) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(typename S::Stored));
  V factor[Rows][Terms];
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int t = 0; t < Terms; ++t) factor[r][t] = V::splat(x[r * x_stride + t]);
  for (int64_t c = 0; c < columns; c += V::kLanes, weight += V::kLanes, acc += V::kLanes) {
    if (c % kLine == 0)
      UNROLL_FOR (int t = 0; t < Terms; ++t) prefetch_far(weight + (Terms + t) * term_stride);
    const int64_t n = columns - c;
    V sum[Rows];
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      sum[r] = kBegins ? V::splat(0) : V::load(acc + r * acc_stride);
    UNROLL_FOR (int t = 0; t < Terms; ++t) {
      const auto* const term = weight + t * term_stride;
      const V w = n < V::kLanes ? S::load_first(term, n) : S::load(term);
      UNROLL_FOR (int r = 0; r < Rows; ++r) sum[r] = fma(factor[r][t], w, sum[r]);
    }
    UNROLL_FOR (int r = 0; r < Rows; ++r) store(acc + r * acc_stride, sum[r]);
  }
}

// sums [Rows][columns] += acc.
template <class V, int Rows, class E = typename V::Element>
RAPT_INLINE void add_block_sums(const E* acc, int64_t columns, E* sums, int64_t stride) {
  for (int64_t r = 0; r < Rows; ++r, acc += stride, sums += stride)
    for (int64_t c = 0; c < columns; c += V::kLanes)
      store(sums + c, add(V::load(sums + c), V::load(acc + c)));
}

// A weight [dims, columns] is read in the order of its addresses, and the sums of all columns stay
// in a cache. Each sum has the chains of FMAs of weight_lanes().
template <class V, class S, int Rows, class E = typename V::Element>
RAPT_NOINLINE void few_rows_by_terms_of(const E* x, int64_t x_stride,
                                        const typename S::Stored* weight, int64_t term_stride,
                                        int64_t columns, int64_t dims, int64_t block, E* block_sums,
                                        E* out, int64_t out_stride) {
  constexpr int kTerms = 4;  // more would be lines of one set where terms are multiples of 4 KiB
  for (int64_t r = 0; r < Rows; ++r)
    for (int64_t c = 0; c < columns; c += V::kLanes) store(out + r * out_stride + c, V::splat(0));
  for (int64_t begin = 0; begin < dims; begin += block) {
    const int64_t end = smaller(begin + block, dims);
    int64_t k = begin;
    for (; k + kTerms <= end; k += kTerms)
      (k == begin ? add_terms<V, S, Rows, kTerms, true>
                  : add_terms<V, S, Rows, kTerms, false>)(x + k, x_stride, weight + k * term_stride,
                                                          term_stride, columns, block_sums,
                                                          out_stride);
    for (; k < end; ++k)
      (k == begin ? add_terms<V, S, Rows, 1, true>
                  : add_terms<V, S, Rows, 1, false>)(x + k, x_stride, weight + k * term_stride,
                                                     term_stride, columns, block_sums, out_stride);
    add_block_sums<V, Rows>(block_sums, columns, out, out_stride);
  }
}

template <class V, class S, class E = typename V::Element>
void few_rows_by_terms(const E* x, int64_t x_stride, int64_t rows, const void* from,
                       int64_t term_stride, int64_t columns, int64_t dims, int64_t block,
                       E* block_sums, E* out, int64_t out_stride) noexcept {
  const auto* weight = static_cast<const typename S::Stored*>(from);
  for (int64_t r = 0, some; r < rows; r += some) {
    some = rows - r >= 4 ? 4 : rows - r >= 2 ? 2 : 1;
    const auto multiply = some == 4   ? few_rows_by_terms_of<V, S, 4>
                          : some == 2 ? few_rows_by_terms_of<V, S, 2>
                                      : few_rows_by_terms_of<V, S, 1>;
    multiply(x + r * x_stride, x_stride, weight, term_stride, columns, dims, block, block_sums,
             out + r * out_stride, out_stride);
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

#pragma once
// Kernels of the backward pass on a tile, beside the two products of the forward pass:
//
//   dV += P^T dO, dK += dS^T Q     rows of keys in registers, lanes are head dimensions; rows of dO
//                                  and Q are read in place
//   delta = rowsum(dO o O)         lanes are queries
//   dbias += dS                    transposed in registers
//
// The third product, dQ^T += K^T dS^T, is the output kernel of the forward pass.
#include "kernels/vector/rows.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// Keys of a register tile. With 4 vectors of dimensions (2 with 16 registers), all accumulators, a
// row and a broadcast fit into registers.
constexpr int kKeyRows = 6;
template <class V>
constexpr int kDimVectors = V::kRegisters >= 32 ? 4 : 2;

// A vector of a row; the last one of a row may be narrower.
template <class V, bool kNarrow>
RAPT_INLINE V load_part(const typename V::Element* p, int64_t dims) {
  if constexpr (kNarrow)
    return V::load_first(p, dims);
  else
    return V::load(p);
}

// The gradients of `Rows` keys in `Vectors` vectors of dimensions, the last with `last` elements.
// The queries of a work unit are summed first and then added, so that the error grows with the
// number of units, not of queries.
template <class V, int Rows, int Vectors, bool kNarrow>
RAPT_INLINE void add_rows(const GradientSpan<typename V::Element>* spans, int64_t span_count,
                          int64_t key, int64_t dim, int64_t last, typename V::Element* gradient,
                          int64_t stride) {
  using E = typename V::Element;
  V acc[Rows][Vectors];
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[r][x] = V::splat(0);
  for (int64_t s = 0; s < span_count; ++s) {
    const GradientSpan<E>& span = spans[s];
    const E* weights = static_cast<const E*>(span.weights) + key * span.queries;
    const E* row = static_cast<const E*>(span.rows) + dim;
    const int64_t queries = span.queries, row_stride = span.row_stride;
    for (int64_t i = 0; i < span.count; ++i, row += row_stride) {
      V part[Vectors];
      UNROLL_FOR (int x = 0; x + 1 < Vectors; ++x) part[x] = V::load(row + x * V::kLanes);
      part[Vectors - 1] = load_part<V, kNarrow>(row + (Vectors - 1) * V::kLanes, last);
      UNROLL_FOR (int x = 0; x < Vectors; ++x) pin(part[x]);
      UNROLL_FOR (int r = 0; r < Rows; ++r) {
        const V w = V::splat(weights[r * queries + i]);
        UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[r][x] = fma(w, part[x], acc[r][x]);
      }
    }
  }
  UNROLL_FOR (int r = 0; r < Rows; ++r) {
    E* out = gradient + r * stride;
    UNROLL_FOR (int x = 0; x + 1 < Vectors; ++x)
      store(out + x * V::kLanes, add(V::load(out + x * V::kLanes), acc[r][x]));
    out += (Vectors - 1) * V::kLanes;
    const V sum = add(load_part<V, kNarrow>(out, last), acc[r][Vectors - 1]);
    if constexpr (kNarrow)
      store_first(out, sum, last);
    else
      store(out, sum);
  }
}

template <class V, int Vectors, bool kNarrow, class E = typename V::Element>
RAPT_NOINLINE void add_columns(const GradientSpan<E>* spans, int64_t span_count, int64_t keys,
                               int64_t dim, int64_t last, E* gradient, int64_t stride) {
  int64_t j = 0;
  for (; j + kKeyRows <= keys; j += kKeyRows)
    add_rows<V, kKeyRows, Vectors, kNarrow>(spans, span_count, j, dim, last, gradient + j * stride,
                                            stride);
  for (; j + 2 <= keys; j += 2)
    add_rows<V, 2, Vectors, kNarrow>(spans, span_count, j, dim, last, gradient + j * stride,
                                     stride);
  if (j < keys)
    add_rows<V, 1, Vectors, kNarrow>(spans, span_count, j, dim, last, gradient + j * stride,
                                     stride);
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_to_keys(const GradientSpan<E>* spans, int64_t span_count, int64_t keys,
                               int64_t dims, E* gradient, int64_t stride) noexcept {
  constexpr int kVectors = kDimVectors<V>;
  constexpr int64_t kLanes = V::kLanes;
  int64_t d = 0;
  for (; d + kVectors * kLanes <= dims; d += kVectors * kLanes)
    add_columns<V, kVectors, false>(spans, span_count, keys, d, kLanes, gradient + d, stride);
  for (; d + kLanes <= dims; d += kLanes)
    add_columns<V, 1, false>(spans, span_count, keys, d, kLanes, gradient + d, stride);
  if (d < dims) add_columns<V, 1, true>(spans, span_count, keys, d, dims - d, gradient + d, stride);
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_to_keys_of_bits(const GradientSpan<E>* spans, int64_t span_count,
                                       int64_t keys, int64_t dims, E* gradient,
                                       int64_t stride) noexcept {
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t d = 0; d < dims; d += V::kLanes) {
      V acc = V::splat(0);
      for (int64_t s = 0; s < span_count; ++s) {
        const GradientSpan<E>& span = spans[s];
        const E* weights = static_cast<const E*>(span.weights) + j * span.queries;
        const E* rows = static_cast<const E*>(span.rows) + d;
        const uint64_t seen = span.bits ? span.bits[j] : ~uint64_t{0};
        for (int64_t i = 0; i < span.count; ++i)
          if (seen >> i & 1)
            acc =
                fma(V::splat(weights[i]), V::load_first(rows + i * span.row_stride, dims - d), acc);
      }
      E* out = gradient + j * stride + d;
      store_first(out, add(V::load_first(out, dims - d), acc), dims - d);
    }
}

// sums [queries] += the products of a and b, both [count][queries], summed over `count`.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_dots(const E* a, const E* b, int64_t count, int64_t queries,
                            E* sums) noexcept {
  for (int64_t x = 0; x < queries; x += V::kLanes) {
    V sum = V::splat(0);
    for (int64_t d = 0; d < count; ++d)
      sum = fma(V::load(a + d * queries + x), V::load(b + d * queries + x), sum);
    store(sums + x, add(V::load(sums + x), sum));
  }
}

// sums [queries] += a tile [keys][queries], summed over its keys.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_sums(const E* tile, int64_t keys, int64_t queries, E* sums) noexcept {
  for (int64_t x = 0; x < queries; x += V::kLanes) {
    V sum = V::splat(0);
    for (int64_t j = 0; j < keys; ++j) sum = add(sum, V::load(tile + j * queries + x));
    store(sums + x, add(V::load(sums + x), sum));
  }
}

// Sum of the lanes, always in the same order.
template <class V>
RAPT_INLINE typename V::Element sum_of(V v) {
  typename V::Element lanes[V::kLanes];
  store(lanes, v);
  for (int64_t step = V::kLanes / 2; step > 0; step /= 2)
    for (int64_t x = 0; x < step; ++x) lanes[x] += lanes[x + step];
  return lanes[0];
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_bias_gradient(const E* d_scores, int64_t keys, int64_t queries, int64_t rows,
                                     E* bias, int64_t row_stride, int64_t key_stride) noexcept {
  if (row_stride == 0) {  // one row for all queries
    for (int64_t j = 0; j < keys; ++j) {
      V sum = V::splat(0);
      for (int64_t x = 0; x < queries; x += V::kLanes)
        sum = add(sum, V::load(d_scores + j * queries + x));
      bias[j * key_stride] += sum_of(sum);
    }
    return;
  }
  for (int64_t x = 0; x < rows; x += V::kLanes) {
    const int64_t some = smaller(V::kLanes, rows - x);
    if (key_stride == 0) {  // one column for all keys
      V sum = V::splat(0);
      for (int64_t j = 0; j < keys; ++j) sum = add(sum, V::load(d_scores + j * queries + x));
      E lanes[V::kLanes];
      store(lanes, sum);
      for (int64_t i = 0; i < some; ++i) bias[(x + i) * row_stride] += lanes[i];
      continue;
    }
    for (int64_t j = 0; j < keys; j += V::kLanes) {
      const int64_t columns = smaller(V::kLanes, keys - j);
      V r[V::kLanes];
      UNROLL_FOR (int y = 0; y < V::kLanes; ++y)
        r[y] = y < columns ? V::load(d_scores + (j + y) * queries + x) : V::splat(0);
      E* out = bias + x * row_stride + j * key_stride;
      if (key_stride == 1) {
        transpose(r);
        UNROLL_FOR (int i = 0; i < V::kLanes; ++i) {
          if (i >= some) break;
          E* row = out + i * row_stride;
          if (columns == V::kLanes)
            store(row, add(V::load(row), r[i]));
          else
            store_first(row, add(V::load_first(row, columns), r[i]), columns);
        }
      } else {
        for (int64_t y = 0; y < columns; ++y)
          for (int64_t i = 0; i < some; ++i)
            out[i * row_stride + y * key_stride] += d_scores[(j + y) * queries + x + i];
      }
    }
  }
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE double sum_of_tile(const E* tile, int64_t count) noexcept {
  V sum = V::splat(0);
  for (int64_t x = 0; x < count; x += V::kLanes) sum = add(sum, V::load(tile + x));
  return static_cast<double>(sum_of(sum));
}

// Adding +0 turns -0 into +0, as store_rows() does.
template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void store_key_rows(const E* from, int64_t stride, int64_t count, int64_t dims,
                                  E factor, void* to, int64_t row_stride,
                                  int64_t dim_stride) noexcept {
  auto* out = static_cast<typename S::Stored*>(to);
  const V scale = V::splat(factor), zero = V::splat(0);
  for (int64_t j = 0; j < count; ++j) {
    const E* const sums = from + j * stride;
    auto* const row = out + j * row_stride;
    int64_t d = 0;
    // Whole vectors need no mask, which would be computed for each of them.
    if (dim_stride == 1)
      for (; d + V::kLanes <= dims; d += V::kLanes)
        S::save(row + d, add(mul(V::load(sums + d), scale), zero));
    for (; d < dims; d += V::kLanes) {
      const int64_t some = smaller(V::kLanes, dims - d);
      const V v = add(mul(V::load_first(sums + d, some), scale), zero);
      if (dim_stride == 1) {
        S::save_first(row + d, v, some);
      } else {
        typename S::Stored lanes[V::kLanes];
        S::save(lanes, v);
        for (int64_t x = 0; x < some; ++x) row[(d + x) * dim_stride] = lanes[x];
      }
    }
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

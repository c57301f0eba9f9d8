#pragma once
// Products for sparse weights, pair by pair. Here dimensions fill the lanes, because a pair is a
// row of one key and a row of one query at any addresses.
#include "kernels/inlining.h"
#include "kernels/kernel_table.h"

namespace rapt::RAPT_ISA {
namespace {

constexpr int64_t kSummedRows = 128;  // the length of one partial sum, like a key block
constexpr int64_t kRowsAhead = 6;     // how many rows ahead are prefetched

// `Vectors` vectors of the sum of weighted rows; the last has `last` elements.
template <class V, int Vectors, class E = typename V::Element>
RAPT_INLINE void sum_rows(const E* rows, int64_t stride, const int32_t* keys, const E* weights,
                          int64_t count, int64_t last, E* sums) {
  V acc[Vectors];
  UNROLL_FOR (int v = 0; v < Vectors; ++v) acc[v] = V::splat(0);
  for (int64_t c = 0; c < count; ++c) {
    const E* const row = rows + keys[c] * stride;
    if (c + kRowsAhead < count) {
      const E* const ahead = rows + keys[c + kRowsAhead] * stride;
      UNROLL_FOR (int v = 0; v < Vectors; ++v) prefetch(ahead + v * V::kLanes);
    }
    const V weight = V::splat(weights[c]);
    UNROLL_FOR (int v = 0; v + 1 < Vectors; ++v)
      acc[v] = fma(weight, V::load(row + v * V::kLanes), acc[v]);
    const E* const end = row + (Vectors - 1) * V::kLanes;
    acc[Vectors - 1] =
        fma(weight, last == V::kLanes ? V::load(end) : V::load_first(end, last), acc[Vectors - 1]);
  }
  UNROLL_FOR (int v = 0; v < Vectors; ++v) store(sums + v * V::kLanes, acc[v]);
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_rows(const DenseRows<E>& rows, const int32_t* keys, const E* weights,
                            int64_t count, int64_t dims, E* column, int64_t step) noexcept {
  constexpr int64_t kWide = 4 * V::kLanes;
  E sums[kWide];
  for (; count > 0; count -= kSummedRows, keys += kSummedRows, weights += kSummedRows) {
    const int64_t some = count < kSummedRows ? count : kSummedRows;
    for (int64_t d = 0; d < dims;) {
      const int64_t left = dims - d, wide = left >= kWide      ? kWide
                                            : left < V::kLanes ? left
                                                               : V::kLanes;
      if (wide == kWide)
        sum_rows<V, 4>(rows.data + d, rows.stride, keys, weights, some, V::kLanes, sums);
      else
        sum_rows<V, 1>(rows.data + d, rows.stride, keys, weights, some, wide, sums);
      for (int64_t x = 0; x < wide; ++x) column[(d + x) * step] += sums[x];
      d += wide;
    }
  }
}

template <class V, class E = typename V::Element>
RAPT_INLINE E sum_of_lanes(V v) {
  E lane[V::kLanes];
  store(lane, v);
  for (int64_t n = V::kLanes / 2; n > 0; n /= 2)
    for (int64_t i = 0; i < n; ++i) lane[i] += lane[i + n];
  return lane[0];
}

template <class V, class E = typename V::Element>
RAPT_INLINE E dot(const E* a, const E* b, int64_t dims) {
  V sum = V::splat(0);
  int64_t d = 0;
  for (; d + V::kLanes <= dims; d += V::kLanes) sum = fma(V::load(a + d), V::load(b + d), sum);
  if (d < dims) sum = fma(V::load_first(a + d, dims - d), V::load_first(b + d, dims - d), sum);
  return sum_of_lanes(sum);
}

// to += factor * from.
template <class V, class E = typename V::Element>
RAPT_INLINE void add_row(E factor, const E* from, int64_t dims, E* to) {
  const V f = V::splat(factor);
  int64_t d = 0;
  for (; d + V::kLanes <= dims; d += V::kLanes)
    store(to + d, fma(f, V::load(from + d), V::load(to + d)));
  if (d < dims)
    store_first(to + d, fma(f, V::load_first(from + d, dims - d), V::load_first(to + d, dims - d)),
                dims - d);
}

template <class V, class E = typename V::Element>
RAPT_INLINE E d_weight(const SparsePair<E>& pair, const SparseGradients<E>& g) {
  return dot<V>(g.value.data + pair.key * g.value.stride,
                g.d_output.data + pair.query * g.d_output.stride, g.value_dim);
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_pair_slopes(const SparsePair<E>* pairs, int64_t count,
                                   const SparseGradients<E>& of, E* sums) noexcept {
  const SparseGradients<E> g = of;
  for (int64_t c = 0; c < count; ++c) {
    const SparsePair<E> pair = pairs[c];
    const E d = d_weight<V>(pair, g);
    E* const sum = sums + pair.query;
    sum[0] += pair.slope;
    sum[g.queries] += pair.slope * d;
    if (!g.numbers) continue;
    sum[2 * g.queries] += pair.number;
    sum[3 * g.queries] += pair.number * d;
  }
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_pair_gradients(const SparsePair<E>* pairs, int64_t count,
                                      const SparseGradients<E>& of) noexcept {
  const SparseGradients<E> g = of;
  for (int64_t c = 0; c < count; ++c) {
    const SparsePair<E> pair = pairs[c];
    if (g.d_value)
      add_row<V>(pair.weight, g.d_output.data + pair.query * g.d_output.stride, g.value_dim,
                 g.d_value + pair.key * g.d_value_stride);
    if (!g.d_key && !g.d_query) continue;
    const E d_score = pair.slope * (d_weight<V>(pair, g) - g.delta[pair.query]);
    if (g.d_key)
      add_row<V>(d_score, g.query.data + pair.query * g.query.stride, g.head_dim,
                 g.d_key + pair.key * g.d_key_stride);
    if (g.d_query)
      add_row<V>(d_score, g.key.data + pair.key * g.key.stride, g.head_dim,
                 g.d_query + pair.query * g.head_dim);
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

#pragma once
// The two matrix products of attention, S^T = K Q^T and O^T += V^T P^T, for one tile of queries.
//
// Queries fill the lanes. So K and V are read in place, one broadcast per element, and both
// products are the same outer-product loop. A register tile has Rows x Vectors accumulators,
// Vectors registers of queries and one broadcast. An FMA latency of 4 cycles on 2 pipes needs 8 or
// more accumulators. Every broadcast feeds Vectors FMAs, so that loads are never the limit.
//
// Each loop is a function of its own that is not inlined: if it is inlined into a caller, g++ 12
// spills an accumulator in the inner loop, which costs a fifth of the speed.
#include "kernels/inlining.h"
#include "kernels/kernel_table.h"

namespace rapt::RAPT_ISA {
namespace {

// Rows of a register tile. Accumulators + query registers + one or two broadcasts must fit.
template <class V, int Vectors>
constexpr int rows_of_tile() {
  if (V::kRegisters >= 32) return Vectors <= 2 ? 12 : Vectors == 3 ? 8 : 6;
  return Vectors == 1 ? 8 : 6;
}

// Whether the next register tile has `Rows` rows, of the `rest` that remain; else it has 4 or 1.
// Eight rows are two tiles of 4: behind a tile of 6, two tiles of 1 would wait for their FMAs.
template <int Rows>
RAPT_INLINE constexpr bool takes_tile(int64_t rest) {
  return rest >= Rows && (Rows != 6 || rest != 8);
}

// How many keys ahead rows of V are prefetched; with 6 to 48 the speed was the same.
constexpr int64_t kValuesAhead = 12;

template <class V, int Rows, int Vectors>
RAPT_INLINE void clear(V (&acc)[Rows][Vectors]) {
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[r][x] = V::splat(0);
}

// acc += the products of a dimension: `query` [kQueries] by the elements of `Rows` keys.
template <class V, int Rows, int Vectors>
RAPT_INLINE void add_dim(const typename V::Element* query, const typename V::Element* key,
                         int64_t key_stride, V (&acc)[Rows][Vectors]) {
  V q[Vectors];
  UNROLL_FOR (int x = 0; x < Vectors; ++x) {
    q[x] = V::load(query + x * V::kLanes);
    pin(q[x]);
  }
  UNROLL_FOR (int r = 0; r < Rows; ++r) {
    const V k = V::splat(key[r * key_stride]);
    UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[r][x] = fma(k, q[x], acc[r][x]);
  }
}

// Scores of `Rows` keys, and their maximum. The maximum stays in memory, because in registers it
// would displace one of the query vectors of the inner loop.
template <class V, int Rows, int Vectors>
RAPT_INLINE void score_rows(const typename V::Element* query_t, const typename V::Element* key,
                            int64_t key_stride, int64_t head_dim, typename V::Element* scores,
                            typename V::Element* block_max) {
  constexpr int64_t kQueries = V::kLanes * Vectors;
  V acc[Rows][Vectors];
  clear(acc);
  // Prefetches the next rows of K, a line of each per `Rows` dimensions; beyond the last row this
  // is harmless. Nothing is computed per dimension: beside a busy sibling thread, a core has few
  // instructions left in the cycles of the FMAs.
  const auto* next = key + Rows * key_stride;
  int64_t d = 0;
  for (; d + Rows <= head_dim; d += Rows, next += 16)
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      prefetch(next + r * key_stride);
      add_dim<V>(query_t + (d + r) * kQueries, key + d + r, key_stride, acc);
    }
  for (; d < head_dim; ++d) add_dim<V>(query_t + d * kQueries, key + d, key_stride, acc);
  UNROLL_FOR (int x = 0; x < Vectors; ++x) {
    V max_v = V::load(block_max + x * V::kLanes);
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      store(scores + r * kQueries + x * V::kLanes, acc[r][x]);
      max_v = max(max_v, acc[r][x]);
    }
    store(block_max + x * V::kLanes, max_v);
  }
}

template <class V, int Vectors>
RAPT_NOINLINE void scores(const void* queries, const void* rows, int64_t key_stride, int64_t keys,
                          int64_t head_dim, typename V::Element /* in the queries */,
                          typename V::Element* out, typename V::Element* block_max) noexcept {
  const auto* query_t = static_cast<const typename V::Element*>(queries);
  const auto* key = static_cast<const typename V::Element*>(rows);
  constexpr int64_t kQueries = V::kLanes * Vectors;
  constexpr int kRows = rows_of_tile<V, Vectors>();
  UNROLL_FOR (int x = 0; x < Vectors; ++x)
    store(block_max + x * V::kLanes, V::set(-__builtin_inf()));
  int64_t j = 0;
  for (; takes_tile<kRows>(keys - j); j += kRows)
    score_rows<V, kRows, Vectors>(query_t, key + j * key_stride, key_stride, head_dim,
                                  out + j * kQueries, block_max);
  for (; j + 4 <= keys; j += 4)
    score_rows<V, 4, Vectors>(query_t, key + j * key_stride, key_stride, head_dim,
                              out + j * kQueries, block_max);
  for (; j < keys; ++j)
    score_rows<V, 1, Vectors>(query_t, key + j * key_stride, key_stride, head_dim,
                              out + j * kQueries, block_max);
}

// Output of `Rows` dimensions. The block is summed first and then added to the old output by the
// FMA that rescales it, so that the error grows with the number of blocks, not of keys.
template <class V, int Rows, int Vectors>
RAPT_INLINE void output_rows(const typename V::Element* weights, const typename V::Element* value,
                             int64_t value_stride, int64_t keys, const typename V::Element* factor,
                             typename V::Element* output_t) {
  constexpr int64_t kQueries = V::kLanes * Vectors;
  V acc[Rows][Vectors];
  clear(acc);
  for (int64_t j = 0; j < keys; ++j) {
    V p[Vectors];
    UNROLL_FOR (int x = 0; x < Vectors; ++x) {
      p[x] = V::load(weights + j * kQueries + x * V::kLanes);
      pin(p[x]);
    }
    prefetch(value + kValuesAhead * value_stride);
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      const V v = V::splat(value[r]);
      UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[r][x] = fma(v, p[x], acc[r][x]);
    }
    value += value_stride;
  }
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int x = 0; x < Vectors; ++x) {
      typename V::Element* out = output_t + r * kQueries + x * V::kLanes;
      const V old = V::load(out);
      store(out,
            factor ? fma(V::load(factor + x * V::kLanes), old, acc[r][x]) : add(old, acc[r][x]));
    }
}

template <class V, int Vectors>
RAPT_NOINLINE void output(const void* tile, const void* rows, int64_t value_stride, int64_t keys,
                          int64_t value_dim, const typename V::Element* factor,
                          typename V::Element* output_t) noexcept {
  const auto* weights = static_cast<const typename V::Element*>(tile);
  const auto* value = static_cast<const typename V::Element*>(rows);
  constexpr int64_t kQueries = V::kLanes * Vectors;
  constexpr int kRows = rows_of_tile<V, Vectors>();
  int64_t d = 0;
  for (; takes_tile<kRows>(value_dim - d); d += kRows)
    output_rows<V, kRows, Vectors>(weights, value + d, value_stride, keys, factor,
                                   output_t + d * kQueries);
  for (; d + 4 <= value_dim; d += 4)
    output_rows<V, 4, Vectors>(weights, value + d, value_stride, keys, factor,
                               output_t + d * kQueries);
  for (; d < value_dim; ++d)
    output_rows<V, 1, Vectors>(weights, value + d, value_stride, keys, factor,
                               output_t + d * kQueries);
}

}  // namespace
}  // namespace rapt::RAPT_ISA

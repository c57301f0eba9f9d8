#pragma once
// Packs rows of queries, keys and values into operands of the products, and stores the output as
// rows. S is the storage type (storage.simd.h).
#include "kernels/inlining.h"
#include "kernels/vector/storage.simd.h"

namespace rapt::RAPT_ISA {
namespace {

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Loads a block of kLanes x kLanes elements transposed: element (x, y) is at x * row_stride +
// y * dim_stride, and r[y] holds element y of all rows. Only `rows` and `dims` exist; others become
// 0.
template <class V, class S>
RAPT_INLINE void load_transposed(const typename S::Stored* matrix, int64_t row_stride,
                                 int64_t dim_stride, int64_t rows, int64_t dims,
                                 V (&r)[V::kLanes]) {
  if (dim_stride == 1 && rows >= V::kLanes && dims >= V::kLanes) {
    UNROLL_FOR (int x = 0; x < V::kLanes; ++x) r[x] = S::load(matrix + x * row_stride);
    transpose(r);
  } else if (dim_stride == 1) {
    UNROLL_FOR (int x = 0; x < V::kLanes; ++x)
      r[x] = x < rows ? S::load_first(matrix + x * row_stride, dims) : V::splat(0);
    transpose(r);
  } else if (row_stride == 1) {  // transposed already
    UNROLL_FOR (int y = 0; y < V::kLanes; ++y)
      r[y] = y >= dims           ? V::splat(0)
             : rows >= V::kLanes ? S::load(matrix + y * dim_stride)
                                 : S::load_first(matrix + y * dim_stride, rows);
  } else {
    for (int64_t y = 0; y < V::kLanes; ++y) {
      typename S::Stored column[V::kLanes] = {};
      if (y < dims)
        for (int64_t x = 0; x < smaller(rows, V::kLanes); ++x)
          column[x] = matrix[x * row_stride + y * dim_stride];
      r[y] = S::load(column);
    }
  }
}

// Prefetches the rows that are read next. Beyond the last row this is harmless.
template <class V, class Stored>
RAPT_INLINE void prefetch_rows(const Stored* rows, int64_t row_stride, int64_t dim_stride) {
  if (dim_stride == 1)
    UNROLL_FOR (int x = 0; x < V::kLanes; ++x) prefetch(rows + x * row_stride);
}

// Tiny problems, decoding and the last tiles of long problems have few rows. Transposing a block of
// mostly zeros takes longer than copying element by element.
// Several long rows, such as weights of few queries, are worth their transposition.
constexpr int64_t kFewRows = 4, kLongRow = 32;
template <class V, class S>
constexpr bool kHasFewRows = !S::kConverts && V::kLanes > kFewRows;

template <class V>
RAPT_INLINE void pack_few_queries(const typename V::Element* query, int64_t row_stride,
                                  int64_t dim_stride, int64_t rows, int64_t head_dim, V factor,
                                  int64_t queries, typename V::Element* query_t) {
  using E = typename V::Element;
  const E* row[kFewRows];
  decltype(mask_of(0)) lane[kFewRows];
  UNROLL_FOR (int64_t x = 0; x < kFewRows; ++x) {
    row[x] = query + smaller(x, rows - 1) * row_stride;
    lane[x] = mask_of(x < rows ? uint64_t{1} << x : 0);
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    V column = V::splat(0);
    UNROLL_FOR (int64_t x = 0; x < kFewRows; ++x)
      column = select(lane[x], V::splat(row[x][d * dim_stride]), column);
    store(query_t + d * queries, mul(factor, column));
  }
}

// Packs a vector of queries. Not inlined, because then its many registers would be saved even for
// few rows.
template <class V, class S>
RAPT_NOINLINE void pack_vector_of_queries(const typename S::Stored* query, int64_t row_stride,
                                          int64_t dim_stride, int64_t rows, int64_t head_dim,
                                          V factor, int64_t queries, typename V::Element* query_t) {
  int64_t d = 0;
  // Whole blocks of dense rows stay in registers: where several branches load a block, the compiler
  // joins them in memory.
  if (dim_stride == 1 && rows >= V::kLanes)
    for (; d + V::kLanes <= head_dim; d += V::kLanes) {
      V r[V::kLanes];
      UNROLL_FOR (int x = 0; x < V::kLanes; ++x) r[x] = S::load(query + x * row_stride + d);
      prefetch_rows<V>(query + V::kLanes * row_stride + d, row_stride, dim_stride);
      transpose(r);
      auto* out = query_t + d * queries;
      UNROLL_FOR (int y = 0; y < V::kLanes; ++y) store(out + y * queries, mul(factor, r[y]));
    }
  for (; d < head_dim; d += V::kLanes) {
    V r[V::kLanes];
    load_transposed<V, S>(query + d * dim_stride, row_stride, dim_stride, rows, head_dim - d, r);
    prefetch_rows<V>(query + V::kLanes * row_stride + d * dim_stride, row_stride, dim_stride);
    auto* out = query_t + d * queries;
    if (head_dim - d >= V::kLanes) {
      UNROLL_FOR (int y = 0; y < V::kLanes; ++y) store(out + y * queries, mul(factor, r[y]));
    } else {
      for (int64_t y = 0; y < head_dim - d; ++y) store(out + y * queries, mul(factor, r[y]));
    }
  }
}

// query_t [head_dim][queries] = factor * query^T.
template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void pack_queries(const void* from, int64_t row_stride, int64_t dim_stride,
                                int64_t rows, int64_t head_dim, E factor, int64_t queries,
                                void* to) noexcept {
  const auto* query = static_cast<const typename S::Stored*>(from);
  auto* query_t = static_cast<E*>(to);
  const V factor_v = V::splat(factor);
  for (int64_t i = 0; i < queries; i += V::kLanes) {
    if constexpr (kHasFewRows<V, S>)
      if (rows - i > 0 && rows - i <= kFewRows) {
        pack_few_queries(query + i * row_stride, row_stride, dim_stride, rows - i, head_dim,
                         factor_v, queries, query_t + i);
        continue;
      }
    pack_vector_of_queries<V, S>(query + i * row_stride, row_stride, dim_stride, rows - i, head_dim,
                                 factor_v, queries, query_t + i);
  }
}

// Converts rows of any strides and storage type to dense rows of E.
template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void pack_rows(const void* from, int64_t row_stride, int64_t dim_stride,
                             int64_t count, int64_t dims, void* to) noexcept {
  const auto* rows = static_cast<const typename S::Stored*>(from);
  auto* dense = static_cast<E*>(to);
  if (dim_stride == 1) {
    for (int64_t j = 0; j < count; ++j) {
      const auto* row = rows + j * row_stride;
      E* out = dense + j * dims;
      int64_t d = 0;
      for (; d + V::kLanes <= dims; d += V::kLanes) store(out + d, S::load(row + d));
      if (d < dims) store_first(out + d, S::load_first(row + d, dims - d), dims - d);
    }
    return;
  }
  for (int64_t j = 0; j < count; j += V::kLanes)
    for (int64_t d = 0; d < dims; d += V::kLanes) {
      V r[V::kLanes];
      load_transposed<V, S>(rows + j * row_stride + d * dim_stride, row_stride, dim_stride,
                            count - j, dims - d, r);
      transpose(r);
      for (int64_t x = 0; x < smaller(count - j, V::kLanes); ++x)
        store_first(dense + (j + x) * dims + d, r[x], dims - d);
    }
}

template <class V, class S>
RAPT_NOINLINE bool all_finite(const void* from, int64_t row_stride, int64_t count,
                              int64_t dims) noexcept {
  const auto* rows = static_cast<const typename S::Stored*>(from);
  // x - x is 0 for a finite x and NaN for any other; sums of zeros stay 0. Four sums, because one
  // chain of additions would be bound by latency.
  V sum[4];
  UNROLL_FOR (int k = 0; k < 4; ++k) sum[k] = V::splat(0);
  for (int64_t i = 0; i < count; ++i) {
    const auto* const row = rows + i * row_stride;
    int64_t d = 0;
    for (; d + 4 * V::kLanes <= dims; d += 4 * V::kLanes)
      UNROLL_FOR (int k = 0; k < 4; ++k) {
        const V x = S::load(row + d + k * V::kLanes);
        sum[k] = add(sum[k], sub(x, x));
      }
    for (; d < dims; d += V::kLanes) {
      const V x = S::load_first(row + d, dims - d);
      sum[0] = add(sum[0], sub(x, x));
    }
  }
  const V total = add(add(sum[0], sum[1]), add(sum[2], sum[3]));
  return !any(not_at_most(total, V::splat(0)));
}

// Adding +0 turns -0 into +0. A product that underflows to -0 keeps its sign unless exact zeros of
// masked keys are added to it; a row's bits must not depend on that.
template <class E>
RAPT_INLINE void store_few_rows(const E* tile_t, int64_t dims, int64_t queries, const E* factor,
                                uint64_t present, int64_t rows, E* out, int64_t row_stride,
                                int64_t dim_stride) {
  for (int64_t x = 0; x < rows; ++x) {
    const bool kept = (present >> x & 1) != 0;
    const E scale = factor ? factor[x] : E(1);
    for (int64_t d = 0; d < dims; ++d) {
      const E value = tile_t[d * queries + x] * scale + E(0);
      out[x * row_stride + d * dim_stride] = kept ? value : E(0);
    }
  }
}

// Stores a vector of queries. Not inlined, like pack_vector_of_queries().
template <class V, class S>
RAPT_NOINLINE void store_vector_of_rows(const typename V::Element* tile_t, int64_t dims,
                                        int64_t queries, V factor, decltype(mask_of(0)) kept,
                                        int64_t rows, typename S::Stored* out, int64_t row_stride,
                                        int64_t dim_stride) {
  const V zero = V::splat(0);
  for (int64_t d = 0; d < dims; d += V::kLanes) {
    const auto* from = tile_t + d * queries;
    auto* block = out + d * dim_stride;
    V r[V::kLanes];
    if (dims - d >= V::kLanes && rows >= V::kLanes && dim_stride == 1) {
      UNROLL_FOR (int y = 0; y < V::kLanes; ++y)
        r[y] = select(kept, add(mul(V::load(from + y * queries), factor), zero), zero);
      transpose(r);
      UNROLL_FOR (int x = 0; x < V::kLanes; ++x) S::save(block + x * row_stride, r[x]);
      continue;
    }
    const int64_t some_dims = smaller(dims - d, V::kLanes);
    const int64_t some_rows = smaller(rows, V::kLanes);
    UNROLL_FOR (int y = 0; y < V::kLanes; ++y)
      r[y] = y < some_dims ? select(kept, add(mul(V::load(from + y * queries), factor), zero), zero)
                           : zero;
    if (dim_stride == 1 && some_dims == V::kLanes) {
      transpose(r);
      UNROLL_FOR (int x = 0; x < V::kLanes; ++x)
        if (x < some_rows) S::save(block + x * row_stride, r[x]);
    } else if (dim_stride == 1) {
      transpose(r);
      UNROLL_FOR (int x = 0; x < V::kLanes; ++x)
        if (x < some_rows) S::save_first(block + x * row_stride, r[x], some_dims);
    } else if (row_stride == 1) {
      UNROLL_FOR (int y = 0; y < V::kLanes; ++y)
        if (y < some_dims) S::save_first(block + y * dim_stride, r[y], some_rows);
    } else {
      for (int64_t y = 0; y < some_dims; ++y) {
        typename S::Stored column[V::kLanes];
        S::save(column, r[y]);
        for (int64_t x = 0; x < some_rows; ++x) block[x * row_stride + y * dim_stride] = column[x];
      }
    }
  }
}

template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void store_rows(const E* tile_t, int64_t dims, int64_t queries, const E* factor,
                              uint64_t present, int64_t rows, void* to, int64_t row_stride,
                              int64_t dim_stride) noexcept {
  auto* out = static_cast<typename S::Stored*>(to);
  for (int64_t i = 0; i < rows; i += V::kLanes) {
    const E* some = factor ? factor + i : nullptr;
    auto* block = out + i * row_stride;
    if constexpr (kHasFewRows<V, S>)
      if (rows - i == 1 || (rows - i <= kFewRows && (dims < kLongRow || dim_stride != 1))) {
        store_few_rows(tile_t + i, dims, queries, some, present >> i, rows - i, block, row_stride,
                       dim_stride);
        continue;
      }
    store_vector_of_rows<V, S>(tile_t + i, dims, queries, some ? V::load(some) : V::splat(1),
                               mask_of(present >> i), rows - i, block, row_stride, dim_stride);
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

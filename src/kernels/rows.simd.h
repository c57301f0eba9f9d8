// Everything around the products that touches a tile: queries in, masks and bias, rows out.
#include "kernels/kernel_table.h"

namespace rapt::RAPT_ISA {
namespace {

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// kLanes x kLanes elements of `matrix`, element (x, y) at x * row_stride + y * dim_stride,
// transposed; rows and dims beyond those given are 0. Whole, dense blocks stay in registers.
template <class V, class E = typename V::Element>
RAPT_INLINE void load_transposed(const E* matrix, int64_t row_stride, int64_t dim_stride,
                                 int64_t rows, int64_t dims, V (&r)[V::kLanes]) {
  if (rows >= V::kLanes && dims >= V::kLanes && dim_stride == 1) {
    UNROLL_FOR (int x = 0; x < V::kLanes; ++x) {
      r[x] = V::load(matrix + x * row_stride);
      prefetch(matrix + (V::kLanes + x) * row_stride);  // the next rows come from far away
    }
  } else {
    for (int64_t x = 0; x < V::kLanes; ++x) {
      E row[V::kLanes] = {};
      if (x < rows)
        for (int64_t y = 0; y < smaller(dims, V::kLanes); ++y)
          row[y] = matrix[x * row_stride + y * dim_stride];
      r[x] = V::load(row);
    }
  }
  transpose(r);
}

// query_t [head_dim][queries] = factor * query^T.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void pack_queries(const E* query, int64_t row_stride, int64_t dim_stride,
                                int64_t rows, int64_t head_dim, E factor, int64_t queries,
                                E* query_t) noexcept {
  const V factor_v = V::splat(factor);
  for (int64_t i = 0; i < queries; i += V::kLanes)
    for (int64_t d = 0; d < head_dim; d += V::kLanes) {
      V r[V::kLanes];
      load_transposed<V>(query + i * row_stride + d * dim_stride, row_stride, dim_stride, rows - i,
                         head_dim - d, r);
      E* out = query_t + d * queries + i;
      if (head_dim - d >= V::kLanes) {
        UNROLL_FOR (int y = 0; y < V::kLanes; ++y) store(out + y * queries, mul(factor_v, r[y]));
      } else {
        for (int64_t y = 0; y < head_dim - d; ++y) store(out + y * queries, mul(factor_v, r[y]));
      }
    }
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void exclude(E* scores, const uint64_t* rows, int64_t keys, int64_t queries,
                           E* block_max) noexcept {
  const V minus_inf = V::set(-__builtin_inf());
  for (int64_t x = 0; x < queries; x += V::kLanes) {
    V max_v = minus_inf;
    for (int64_t j = 0; j < keys; ++j) {
      E* s = scores + j * queries + x;
      const V kept = select(mask_of(rows[j] >> x), V::load(s), minus_inf);
      store(s, kept);
      max_v = max(max_v, kept);
    }
    store(block_max + x, max_v);
  }
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_bias(E* scores, const E* bias, int64_t row_stride, int64_t key_stride,
                            int64_t keys, int64_t rows, int64_t queries, uint64_t* bits) noexcept {
  const V minus_inf = V::set(-__builtin_inf());
  for (int64_t j = 0; j < keys; j += V::kLanes) {
    const int64_t columns = smaller(V::kLanes, keys - j);
    for (int64_t x = 0; x < rows; x += V::kLanes) {
      V r[V::kLanes];
      load_transposed<V>(bias + x * row_stride + j * key_stride, row_stride, key_stride, rows - x,
                         columns, r);
      for (int64_t y = 0; y < columns; ++y) {
        E* s = scores + (j + y) * queries + x;
        const M excluded = equal(r[y], minus_inf);
        store(s, add(V::load(s), r[y]));
        bits[j + y] &= ~(bits_of(excluded) << x);
      }
    }
  }
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void output_of_bits(const E* weights, const uint64_t* bits, const E* value,
                                  int64_t value_stride, int64_t keys, int64_t value_dim,
                                  const E* factor, int64_t queries, E* output_t) noexcept {
  for (int64_t d = 0; d < value_dim; ++d)
    for (int64_t x = 0; x < queries; x += V::kLanes) {
      V acc = V::splat(0);
      for (int64_t j = 0; j < keys; ++j) {
        const V v = V::splat(value[j * value_stride + d]);
        const V more = fma(v, V::load(weights + j * queries + x), acc);
        acc = select(mask_of(bits[j] >> x), more, acc);
      }
      const V old = V::load(output_t + d * queries + x);
      store(output_t + d * queries + x,
            factor ? fma(V::load(factor + x), old, acc) : add(old, acc));
    }
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE bool all_finite(const E* rows, int64_t row_stride, int64_t count,
                              int64_t dims) noexcept {
  // x - x is 0 for a finite x and NaN for any other; sums of zeros stay 0. Four sums, because one
  // would wait for the latency of its additions.
  V sum[4];
  UNROLL_FOR (int k = 0; k < 4; ++k) sum[k] = V::splat(0);
  for (int64_t i = 0; i < count; ++i) {
    const E* row = rows + i * row_stride;
    int64_t d = 0;
    for (; d + 4 * V::kLanes <= dims; d += 4 * V::kLanes)
      UNROLL_FOR (int k = 0; k < 4; ++k) {
        const V x = V::load(row + d + k * V::kLanes);
        sum[k] = add(sum[k], sub(x, x));
      }
    for (; d < dims; d += V::kLanes) {
      const V x = V::load_first(row + d, dims - d);
      sum[0] = add(sum[0], sub(x, x));
    }
  }
  const V total = add(add(sum[0], sum[1]), add(sum[2], sum[3]));
  return !any(not_at_most(total, V::splat(0)));
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void store_rows(const E* tile_t, int64_t dims, int64_t queries, const E* factor,
                              uint64_t present, int64_t rows, E* out, int64_t row_stride,
                              int64_t dim_stride) noexcept {
  // Adding +0 makes one zero of -0 and +0: a product that underflows to -0 keeps its sign or loses
  // it to the exact zeros of masked keys, which a row's bits must not show.
  const V zero = V::splat(0);
  for (int64_t i = 0; i < rows; i += V::kLanes) {
    const M kept = mask_of(present >> i);
    const V factor_v = factor ? V::load(factor + i) : V::splat(1);
    for (int64_t d = 0; d < dims; d += V::kLanes) {
      const E* from = tile_t + d * queries + i;
      E* to = out + i * row_stride + d * dim_stride;
      V r[V::kLanes];
      if (dims - d >= V::kLanes && rows - i >= V::kLanes && dim_stride == 1) {
        UNROLL_FOR (int y = 0; y < V::kLanes; ++y)
          r[y] = select(kept, add(mul(V::load(from + y * queries), factor_v), zero), zero);
        transpose(r);
        UNROLL_FOR (int x = 0; x < V::kLanes; ++x) store(to + x * row_stride, r[x]);
        continue;
      }
      for (int64_t y = 0; y < V::kLanes; ++y)
        r[y] = y < dims - d
                   ? select(kept, add(mul(V::load(from + y * queries), factor_v), zero), zero)
                   : zero;
      transpose(r);
      for (int64_t x = 0; x < smaller(V::kLanes, rows - i); ++x) {
        E row[V::kLanes];
        store(row, r[x]);
        for (int64_t y = 0; y < smaller(V::kLanes, dims - d); ++y)
          to[x * row_stride + y * dim_stride] = row[y];
      }
    }
  }
}

// 24 independent chains of multiply-adds: more than latency times pipes.
template <class V, class E = typename V::Element>
RAPT_NOINLINE E fma_loop(int64_t iterations) noexcept {
  constexpr int kChains = V::kRegisters >= 32 ? 24 : 12;
  V acc[kChains];
  for (int i = 0; i < kChains; ++i) acc[i] = V::set(1 + i * 1e-3);
  V x = V::set(0.999999), y = V::set(1e-7);
  for (int64_t n = 0; n < iterations * 24; n += kChains) {
    UNROLL_FOR (int i = 0; i < kChains; ++i) acc[i] = fma(acc[i], x, y);
    pin(x);
    pin(y);
  }
  for (int i = 1; i < kChains; ++i) acc[0] = add(acc[0], acc[i]);
  E lanes[V::kLanes];
  store(lanes, acc[0]);
  return lanes[0];
}

}  // namespace
}  // namespace rapt::RAPT_ISA

#pragma once
// What the products of layers (rapt/product.h) need beside the products of attention: a product of
// few rows, which reads each row of the weight once, and the store with bias and activation.
#include "kernels/vector/activations.simd.h"
#include "kernels/vector/gradients.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// How far ahead rows of the weight are prefetched, in elements: some lines. Behind the end of a row
// that is the next one, where rows lie side by side.
constexpr int64_t kWeightsAhead = 64;

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

// total [Rows][Groups kLanes] = the same for Groups kLanes rows of the weight, `lane_stride` apart.
// All blocks are whole: `dims` is a multiple of kLanes.
template <class V, class S, int Rows, int Groups>
RAPT_INLINE void whole_weight_lanes(const typename V::Element* x, int64_t x_stride,
                                    const typename S::Stored* weight, int64_t lane_stride,
                                    int64_t dims, int64_t block, V (&total)[Rows][Groups]) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(typename S::Stored));
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int g = 0; g < Groups; ++g) total[r][g] = V::splat(0);
  for (int64_t begin = 0; begin < dims; begin += block) {
    const int64_t end = smaller(begin + block, dims);
    V acc[Rows][Groups];
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      UNROLL_FOR (int g = 0; g < Groups; ++g) acc[r][g] = V::splat(0);
    for (int64_t d = begin; d < end; d += V::kLanes) {
      const bool begins_line = d % kLine == 0;
      UNROLL_FOR (int g = 0; g < Groups; ++g) {
        const auto* rows = weight + g * V::kLanes * lane_stride + d;
        V w[V::kLanes];
        UNROLL_FOR (int i = 0; i < V::kLanes; ++i) w[i] = S::load(rows + i * lane_stride);
        if (begins_line)
          UNROLL_FOR (int i = 0; i < V::kLanes; ++i)
            prefetch(rows + i * lane_stride + kWeightsAhead);
        transpose(w);
        UNROLL_FOR (int y = 0; y < V::kLanes; ++y)
          UNROLL_FOR (int r = 0; r < Rows; ++r)
            acc[r][g] = fma(V::splat(x[r * x_stride + d + y]), w[y], acc[r][g]);
      }
    }
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      UNROLL_FOR (int g = 0; g < Groups; ++g) total[r][g] = add(total[r][g], acc[r][g]);
  }
}

// A weight in a cache: two groups of rows at once, whose chains hide each other's latency. Returns
// the columns that are computed.
template <class V, class S, int Rows, class E = typename V::Element>
RAPT_INLINE int64_t cached_weight(const E* x, int64_t x_stride, const typename S::Stored* weight,
                                  int64_t row_stride, int64_t columns, int64_t dims, int64_t block,
                                  E* out, int64_t out_stride) {
  int64_t c = 0;
  for (; c + 2 * V::kLanes <= columns; c += 2 * V::kLanes) {
    V total[Rows][2];
    whole_weight_lanes<V, S, Rows, 2>(x, x_stride, weight + c * row_stride, row_stride, dims, block,
                                      total);
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      UNROLL_FOR (int g = 0; g < 2; ++g)
        store(out + r * out_stride + c + g * V::kLanes, total[r][g]);
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
    V total[Rows][1];
    whole_weight_lanes<V, S, Rows, 1>(x, x_stride, weight + c * row_stride, stream * row_stride,
                                      dims, block, total);
    for (int64_t r = 0; r < Rows; ++r) {
      E lanes[V::kLanes];
      store(lanes, total[r][0]);
      for (int64_t i = 0; i < V::kLanes; ++i) out[r * out_stride + c + i * stream] = lanes[i];
    }
  }
  return stream * V::kLanes;
}

template <class V, class S, int Rows, class E = typename V::Element>
RAPT_NOINLINE void few_rows_of(const E* x, int64_t x_stride, const typename S::Stored* weight,
                               int64_t row_stride, int64_t columns, int64_t dims, int64_t block,
                               bool in_memory, E* out, int64_t out_stride) {
  int64_t c = 0;
  if (dims % V::kLanes == 0 && dims > 0) {
    if (V::kLanes <= kMostStreams && in_memory)
      c = streamed_weight<V, S, Rows>(x, x_stride, weight, row_stride, columns, dims, block, out,
                                      out_stride);
    else
      c = cached_weight<V, S, Rows>(x, x_stride, weight, row_stride, columns, dims, block, out,
                                    out_stride);
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

// A vector of an output row at any distance between its elements.
template <class V, class S>
RAPT_INLINE V load_spread(const typename S::Stored* p, int64_t step, int64_t n) {
  if (step == 1) return n < V::kLanes ? S::load_first(p, n) : S::load(p);
  typename S::Stored lanes[V::kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i * step];
  return S::load(lanes);
}
template <class V, class S>
RAPT_INLINE void save_spread(typename S::Stored* p, int64_t step, V v, int64_t n) {
  if (step == 1) {
    if (n < V::kLanes)
      S::save_first(p, v, n);
    else
      S::save(p, v);
    return;
  }
  typename S::Stored lanes[V::kLanes];
  S::save(lanes, v);
  for (int64_t i = 0; i < n; ++i) p[i * step] = lanes[i];
}

// A vector of the output, of which n elements exist.
template <class V, class S, Activation A, class E = typename V::Element>
RAPT_INLINE void store_part(const E* sums, const E* bias, bool adds, typename S::Stored* before,
                            int64_t before_step, typename S::Stored* out, int64_t step, int64_t n) {
  V v = n < V::kLanes ? V::load_first(sums, n) : V::load(sums);
  if (bias) v = add(v, n < V::kLanes ? V::load_first(bias, n) : V::load(bias));
  if (before) save_spread<V, S>(before, before_step, v, n);
  v = activate<A>(v);
  if (adds) v = add(load_spread<V, S>(out, step, n), v);
  save_spread<V, S>(out, step, v, n);
}

// The members of `to` are copied first: stores might change them, for all that a compiler knows.
template <class V, class S, Activation A, class E = typename V::Element>
RAPT_NOINLINE void store_product_as(const E* sums, int64_t sums_stride, int64_t rows,
                                    int64_t columns, const ProductStore<E>& to) noexcept {
  using Stored = typename S::Stored;
  const E* const bias = to.bias;
  const bool adds = to.add;
  auto* out = static_cast<Stored*>(to.out);
  auto* before = static_cast<Stored*>(to.before);
  const int64_t step = to.column_stride, before_step = to.before_column_stride;
  const int64_t out_stride = to.row_stride, before_stride = to.before_row_stride;
  const bool plain = !bias && !before && !adds && step == 1;
  for (int64_t r = 0; r < rows; ++r, sums += sums_stride, out += out_stride) {
    int64_t c = 0;
    if (plain)
      for (; c + V::kLanes <= columns; c += V::kLanes)
        S::save(out + c, activate<A>(V::load(sums + c)));
    for (; c < columns; c += V::kLanes)
      store_part<V, S, A>(sums + c, bias ? bias + c : nullptr, adds,
                          before ? before + c * before_step : nullptr, before_step, out + c * step,
                          step, smaller(columns - c, V::kLanes));
    if (before) before += before_stride;
  }
}

template <class V, class S, class E = typename V::Element>
void store_product(const E* sums, int64_t sums_stride, int64_t rows, int64_t columns,
                   const ProductStore<E>& to) noexcept {
  switch (to.activation) {
    case Activation::none:
      return store_product_as<V, S, Activation::none>(sums, sums_stride, rows, columns, to);
    case Activation::relu:
      return store_product_as<V, S, Activation::relu>(sums, sums_stride, rows, columns, to);
    case Activation::gelu:
      return store_product_as<V, S, Activation::gelu>(sums, sums_stride, rows, columns, to);
    case Activation::gelu_tanh:
      return store_product_as<V, S, Activation::gelu_tanh>(sums, sums_stride, rows, columns, to);
    case Activation::silu:
      return store_product_as<V, S, Activation::silu>(sums, sums_stride, rows, columns, to);
  }
}

// sums [columns] += the sums over `count` dense rows, which are summed first.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_column_sums(const E* rows, int64_t row_stride, int64_t count,
                                   int64_t columns, E* sums) noexcept {
  for (int64_t c = 0; c < columns; c += V::kLanes) {
    const int64_t n = smaller(columns - c, V::kLanes);
    V sum = V::splat(0);
    for (int64_t i = 0; i < count; ++i)
      sum = add(sum, n < V::kLanes ? V::load_first(rows + i * row_stride + c, n)
                                   : V::load(rows + i * row_stride + c));
    store_first(sums + c, add(V::load_first(sums + c, n), sum), n);
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

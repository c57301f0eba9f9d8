#pragma once
// Products of layers (rapt/product.h) beside their tiles: the store with bias and activation, and
// sums of columns.
#include "kernels/vector/activations.simd.h"
#include "kernels/vector/gradients.simd.h"

namespace rapt::RAPT_ISA {
namespace {

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

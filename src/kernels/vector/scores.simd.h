#pragma once
// Operations on a score tile between the products (masks, bias), and the output product for values
// that may not be finite.
#include "kernels/vector/rows.simd.h"

namespace rapt::RAPT_ISA {
namespace {

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
RAPT_NOINLINE void find_max(const E* scores, int64_t keys, int64_t queries, E* block_max) noexcept {
  for (int64_t x = 0; x < queries; x += V::kLanes) {
    // Two chains, because a maximum has a latency of four cycles.
    V even = V::set(-__builtin_inf()), odd = even;
    int64_t j = 0;
    for (; j + 1 < keys; j += 2) {
      even = max(even, V::load(scores + j * queries + x));
      odd = max(odd, V::load(scores + (j + 1) * queries + x));
    }
    if (j < keys) even = max(even, V::load(scores + j * queries + x));
    store(block_max + x, max(even, odd));
  }
}

template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE bool add_bias(E* scores, const void* from, int64_t row_stride, int64_t key_stride,
                            int64_t keys, int64_t rows, int64_t queries, uint64_t* bits,
                            E* block_max) noexcept {
  const auto* bias = static_cast<const typename S::Stored*>(from);
  const V minus_inf = V::set(-__builtin_inf());
  bool excluded = false;
  // Walks along the rows first, so that loads read neighbouring lines, which the hardware
  // prefetches.
  for (int64_t x = 0; x < rows; x += V::kLanes) {
    V max_v = minus_inf;
    for (int64_t j = 0; j < keys; j += V::kLanes) {
      const int64_t columns = smaller(V::kLanes, keys - j);
      V r[V::kLanes];
      load_transposed<V, S>(bias + x * row_stride + j * key_stride, row_stride, key_stride,
                            rows - x, columns, r);
      // 0 times an infinity is NaN, so one test finds the few blocks where the bias masks a key.
      V finite = V::splat(0);
      UNROLL_FOR (int y = 0; y < V::kLanes; ++y) {
        if (y >= columns) break;
        E* s = scores + (j + y) * queries + x;
        const V sum = add(V::load(s), r[y]);
        store(s, sum);
        max_v = max(max_v, sum);
        finite = fma(r[y], V::splat(0), finite);
      }
      if (!any(not_at_most(finite, finite))) continue;
      for (int64_t y = 0; y < columns; ++y) {
        const uint64_t minus = bits_of(equal(r[y], minus_inf)) << x;
        bits[j + y] &= ~minus;
        excluded |= minus != 0;
      }
    }
    store(block_max + x, max_v);
  }
  return excluded;
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void output_of_bits(const void* tile, const uint64_t* bits, const void* rows,
                                  int64_t value_stride, int64_t keys, int64_t value_dim,
                                  const E* factor, int64_t queries, E* output_t) noexcept {
  const auto* weights = static_cast<const E*>(tile);
  const auto* value = static_cast<const E*>(rows);
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

// Independent chains of multiply-adds, more than latency times pipes.
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

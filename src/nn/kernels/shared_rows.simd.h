#pragma once
// Arithmetic on rows: sums, embeddings, gated activations, dropout.
#include "kernels/vector/activations.simd.h"
#include "nn/kernels/row_kernels.h"
#include "nn/kernels/row_sums.simd.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V, class S>
RAPT_NOINLINE void add_row(const void* x, int64_t count, void* y) noexcept {
  const auto* const from = static_cast<const typename S::Stored*>(x);
  auto* const to = static_cast<typename S::Stored*>(y);
  for_vectors<V, S>(0, count, [&](int64_t i, const auto& vector) {
    vector.save(to + i, add(vector.load(to + i), vector.load(from + i)));
  });
}

template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void add_scaled_row(const void* x, int64_t count, E factor, E* sums) noexcept {
  const auto* const from = static_cast<const typename S::Stored*>(x);
  const V f = V::splat(factor);
  for_vectors<V, S>(0, count, [&](int64_t i, const auto& vector) {
    vector.save_sums(sums + i, fma(f, vector.load(from + i), vector.load_sums(sums + i)));
  });
}

// Rows of a block of a sum.
constexpr int64_t kBlockRows = 256;

template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void add_chosen_rows(const void* rows, const int64_t* chosen, int64_t count,
                                   int64_t features, E factor, E* sums) noexcept {
  const auto* const from = static_cast<const typename S::Stored*>(rows);
  const V f = V::splat(factor);
  for_vectors<V, S>(0, features, [&](int64_t i, const auto& vector) {
    V total = V::splat(0);
    for (int64_t begin = 0; begin < count; begin += kBlockRows) {
      const int64_t end = smaller(begin + kBlockRows, count);
      V sum = vector.load(from + chosen[begin] * features + i);
      for (int64_t k = begin + 1; k < end; ++k)
        sum = add(sum, vector.load(from + chosen[k] * features + i));
      total = add(total, sum);
    }
    vector.save_sums(sums + i, fma(f, total, vector.load_sums(sums + i)));
  });
}

template <class V, class S, Activation A>
RAPT_NOINLINE void gated_as(const void* gate, const void* up, int64_t count, void* y) noexcept {
  using Stored = typename S::Stored;
  const auto* const z = static_cast<const Stored*>(gate);
  const auto* const b = static_cast<const Stored*>(up);
  auto* const to = static_cast<Stored*>(y);
  for_vectors<V, S>(0, count, [&](int64_t i, const auto& vector) {
    vector.save(to + i, mul(activate<A>(vector.load(z + i)), vector.load(b + i)));
  });
}

template <class V, class S, Activation A>
RAPT_NOINLINE void gated_gradient_as(const void* gate, const void* up, const void* d_y,
                                     int64_t count, void* d_gate, void* d_up) noexcept {
  using Stored = typename S::Stored;
  const auto* const z = static_cast<const Stored*>(gate);
  const auto* const b = static_cast<const Stored*>(up);
  const auto* const from = static_cast<const Stored*>(d_y);
  auto* const to_gate = static_cast<Stored*>(d_gate);
  auto* const to_up = static_cast<Stored*>(d_up);
  for_vectors<V, S>(0, count, [&](int64_t i, const auto& vector) {
    const V at = vector.load(z + i), d = vector.load(from + i), other = vector.load(b + i);
    if (to_gate) vector.save(to_gate + i, mul(mul(d, other), slope<A>(at)));
    if (to_up) vector.save(to_up + i, mul(d, activate<A>(at)));
  });
}

template <class V, class S>
void gated_rows(Activation activation, const void* gate, const void* up, int64_t count,
                void* y) noexcept {
  with_activation(activation, [&]<Activation A>() { gated_as<V, S, A>(gate, up, count, y); });
}
template <class V, class S>
void gated_gradient_rows(Activation activation, const void* gate, const void* up, const void* d_y,
                         int64_t count, void* d_gate, void* d_up) noexcept {
  with_activation(activation, [&]<Activation A>() {
    gated_gradient_as<V, S, A>(gate, up, d_y, count, d_gate, d_up);
  });
}

template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void drop_rows(const void* x, int64_t stride, const uint64_t* bits, int64_t rows,
                             int64_t columns, E factor, bool adds, void* y) noexcept {
  const auto* from = static_cast<const typename S::Stored*>(x);
  auto* to = static_cast<typename S::Stored*>(y);
  const V f = V::splat(factor), zero = V::splat(0);
  for (int64_t r = 0; r < rows; ++r, from += stride, to += stride)
    for_vectors<V, S>(0, columns, [&](int64_t i, const auto& vector) {
      const V kept = mul(vector.load(from + i), select(mask_of(bits[r] >> i), f, zero));
      vector.save(to + i, adds ? add(vector.load(to + i), kept) : kept);
    });
}

}  // namespace
}  // namespace rapt::RAPT_ISA

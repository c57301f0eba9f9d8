#pragma once
// The gates of a gated recurrent unit (rapt/nn/gru.h) for one step, and their gradients. Lanes are
// hidden features; rows are sequences.
#include "kernels/vector/activations.simd.h"
#include "kernels/vector/rows.simd.h"
#include "nn/kernels/sequence_kernels.h"

namespace rapt::RAPT_ISA {
namespace {

// Loads and stores of a whole vector, or of its first n elements.
template <class V, class S, bool Whole>
struct Part {
  using Stored = typename S::Stored;
  int64_t n;
  V load(const Stored* p) const {
    if constexpr (Whole)
      return S::load(p);
    else
      return S::load_first(p, n);
  }
  void save(Stored* p, V v) const {
    if constexpr (Whole)
      S::save(p, v);
    else
      S::save_first(p, v, n);
  }
};

template <class V, class S, bool Whole, class E = typename V::Element>
RAPT_INLINE void gru_gates(E* gates, const E* recurrent, E* h, typename S::Stored* y,
                           int64_t hidden, int64_t n) {
  const Part<V, AsElement<V>, Whole> part{n};
  const V r = sigmoid_of(add(part.load(gates), part.load(recurrent)));
  const V z = sigmoid_of(add(part.load(gates + hidden), part.load(recurrent + hidden)));
  const V from_h = part.load(recurrent + 2 * hidden), before = part.load(h);
  const V candidate = tanh(fma(r, from_h, part.load(gates + 2 * hidden)));
  const V after = fma(z, sub(before, candidate), candidate);
  part.save(gates, r);
  part.save(gates + hidden, z);
  part.save(gates + 2 * hidden, candidate);
  part.save(gates + 3 * hidden, from_h);
  part.save(gates + 4 * hidden, before);
  part.save(h, after);
  Part<V, S, Whole>{n}.save(y, after);
}

template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void gru_step(const nn::GruStep<E>& step) noexcept {
  const int64_t hidden = step.hidden;
  for (int64_t row = 0; row < step.rows; ++row) {
    E* const gates = step.gates + row * step.gates_stride;
    const E* const recurrent = step.recurrent + row * 3 * hidden;
    E* const h = step.h + row * hidden;
    auto* const y = static_cast<typename S::Stored*>(step.y) + row * step.y_stride;
    int64_t i = 0;
    for (; i + V::kLanes <= hidden; i += V::kLanes)
      gru_gates<V, S, true>(gates + i, recurrent + i, h + i, y + i, hidden, V::kLanes);
    if (i < hidden)
      gru_gates<V, S, false>(gates + i, recurrent + i, h + i, y + i, hidden, hidden - i);
  }
}

template <class V, class S, bool Whole, class E = typename V::Element>
RAPT_INLINE void gru_gate_gradients(const E* gates, const typename S::Stored* d_y, E* d_h,
                                    E* d_gates, E* d_recurrent, int64_t hidden, int64_t n) {
  const Part<V, AsElement<V>, Whole> part{n};
  const V one = V::set(1);
  const V r = part.load(gates), z = part.load(gates + hidden);
  const V candidate = part.load(gates + 2 * hidden), from_h = part.load(gates + 3 * hidden);
  const V before = part.load(gates + 4 * hidden);
  const V d_after = add(part.load(d_h), Part<V, S, Whole>{n}.load(d_y));
  const V d_z = mul(mul(d_after, sub(before, candidate)), mul(z, sub(one, z)));
  const V slope = sub(one, mul(candidate, candidate));
  const V d_n = mul(mul(d_after, sub(one, z)), slope);
  const V d_r = mul(mul(d_n, from_h), mul(r, sub(one, r)));
  const V d_from_h = mul(d_n, r);
  part.save(d_h, mul(d_after, z));
  part.save(d_gates, d_r);
  part.save(d_gates + hidden, d_z);
  part.save(d_gates + 2 * hidden, d_n);
  part.save(d_gates + 3 * hidden, d_from_h);
  part.save(d_recurrent, d_r);
  part.save(d_recurrent + hidden, d_z);
  part.save(d_recurrent + 2 * hidden, d_from_h);
}

template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void gru_step_gradient(const nn::GruStepGradient<E>& step) noexcept {
  const int64_t hidden = step.hidden;
  for (int64_t row = 0; row < step.rows; ++row) {
    const E* const gates = step.gates + row * step.gates_stride;
    const auto* const d_y =
        static_cast<const typename S::Stored*>(step.d_y) + row * step.d_y_stride;
    E* const d_h = step.d_h + row * hidden;
    E* const d_gates = step.d_gates + row * step.d_gates_stride;
    E* const d_recurrent = step.d_recurrent + row * 3 * hidden;
    int64_t i = 0;
    for (; i + V::kLanes <= hidden; i += V::kLanes)
      gru_gate_gradients<V, S, true>(gates + i, d_y + i, d_h + i, d_gates + i, d_recurrent + i,
                                     hidden, V::kLanes);
    if (i < hidden)
      gru_gate_gradients<V, S, false>(gates + i, d_y + i, d_h + i, d_gates + i, d_recurrent + i,
                                      hidden, hidden - i);
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

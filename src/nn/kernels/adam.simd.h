#pragma once
// One update of Adam (rapt/nn/adam.h) over arrays, lane by lane.
#include "kernels/inlining.h"
#include "kernels/vector/storage.simd.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/kernels/roots.simd.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V>
struct AdamFactors {
  V keep, decay, rest1, beta2, rest2, root_factor, eps, step;

  explicit AdamFactors(const nn::AdamStep& s)
      : keep(V::set(s.keep)),
        decay(V::set(s.decay)),
        rest1(V::set(1 - s.beta1)),
        beta2(V::set(s.beta2)),
        rest2(V::set(1 - s.beta2)),
        root_factor(V::set(s.root_factor)),
        eps(V::set(s.eps)),
        step(V::set(-s.step_size)) {}
};

template <bool kDecaysGradient, class V>
RAPT_INLINE void adam_update(const AdamFactors<V>& f, V gradient, V& first, V& second, V& value) {
  const V g = kDecaysGradient ? fma(f.decay, value, gradient) : gradient;
  first = fma(f.rest1, sub(g, first), first);
  second = fma(f.beta2, second, mul(mul(f.rest2, g), g));
  const V divisor = fma(square_root(second), f.root_factor, f.eps);
  value = fma(f.keep, value, div(mul(f.step, first), divisor));
}

// The copy of a 16-bit parameter, or the parameter where that is not the rounding of its copy.
template <class V, class S>
RAPT_INLINE V copy_of(V copy, V stored) {
  typename S::Stored rounded[V::kLanes];
  S::save(rounded, copy);
  return select(equal(S::load(rounded), stored), copy, stored);
}

template <class V, class S, bool kDecaysGradient, class E = typename V::Element>
RAPT_NOINLINE void adam_as(const nn::AdamStep& step, const E* gradient, int64_t count, void* value,
                           E* master, E* first, E* second) noexcept {
  const AdamFactors<V> f(step);
  auto* to = static_cast<typename S::Stored*>(value);
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    V m = V::load(first + i), v = V::load(second + i), w = S::load(to + i);
    if constexpr (S::kConverts) w = copy_of<V, S>(V::load(master + i), w);
    adam_update<kDecaysGradient>(f, V::load(gradient + i), m, v, w);
    store(first + i, m), store(second + i, v), S::save(to + i, w);
    if constexpr (S::kConverts) store(master + i, w);
  }
  if (const int64_t n = count - i; n > 0) {
    V m = V::load_first(first + i, n), v = V::load_first(second + i, n);
    V w = S::load_first(to + i, n);
    if constexpr (S::kConverts) w = copy_of<V, S>(V::load_first(master + i, n), w);
    adam_update<kDecaysGradient>(f, V::load_first(gradient + i, n), m, v, w);
    store_first(first + i, m, n), store_first(second + i, v, n), S::save_first(to + i, w, n);
    if constexpr (S::kConverts) store_first(master + i, w, n);
  }
}

template <class V, class S, class E = typename V::Element>
void adam_rows(const nn::AdamStep& step, const E* gradient, int64_t count, void* value, E* master,
               E* first, E* second) noexcept {
  const auto function = step.decay != 0 ? adam_as<V, S, true> : adam_as<V, S, false>;
  function(step, gradient, count, value, master, first, second);
}

}  // namespace
}  // namespace rapt::RAPT_ISA

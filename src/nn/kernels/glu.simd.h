#pragma once
// The gated linear unit (rapt/nn/glu.h) of rows (a, b).
#include "kernels/vector/activations.simd.h"
#include "kernels/vector/storage.simd.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V, class S>
RAPT_NOINLINE void glu_rows(const void* x, int64_t rows, int64_t features, void* y) noexcept {
  const auto* a = static_cast<const typename S::Stored*>(x);
  auto* to = static_cast<typename S::Stored*>(y);
  for (int64_t r = 0; r < rows; ++r, a += 2 * features, to += features) {
    const auto* b = a + features;
    int64_t i = 0;
    for (; i + V::kLanes <= features; i += V::kLanes)
      S::save(to + i, mul(S::load(a + i), sigmoid_of(S::load(b + i))));
    if (i < features) {
      const int64_t n = features - i;
      S::save_first(to + i, mul(S::load_first(a + i, n), sigmoid_of(S::load_first(b + i, n))), n);
    }
  }
}

template <class V>
struct GluGradient {
  V d_a, d_b;
};
template <class V>
RAPT_INLINE GluGradient<V> glu_gradient_of(V a, V b, V d_y) {
  const V s = sigmoid_of(b), d_a = mul(d_y, s);
  return {d_a, mul(mul(d_a, a), sub(V::set(1), s))};
}

template <class V, class S>
RAPT_NOINLINE void glu_gradient_rows(const void* x, const void* d_y, int64_t rows, int64_t features,
                                     void* d_x) noexcept {
  const auto* a = static_cast<const typename S::Stored*>(x);
  const auto* from = static_cast<const typename S::Stored*>(d_y);
  auto* to = static_cast<typename S::Stored*>(d_x);
  for (int64_t r = 0; r < rows; ++r, a += 2 * features, from += features, to += 2 * features) {
    const auto* b = a + features;
    int64_t i = 0;
    for (; i + V::kLanes <= features; i += V::kLanes) {
      const auto d = glu_gradient_of(S::load(a + i), S::load(b + i), S::load(from + i));
      S::save(to + i, d.d_a);
      S::save(to + features + i, d.d_b);
    }
    if (i < features) {
      const int64_t n = features - i;
      const auto d = glu_gradient_of(S::load_first(a + i, n), S::load_first(b + i, n),
                                     S::load_first(from + i, n));
      S::save_first(to + i, d.d_a, n);
      S::save_first(to + features + i, d.d_b, n);
    }
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

#pragma once
// Dot products with the rows of targets, and squared errors.
#include "nn/kernels/loss_kernels.h"
#include "nn/kernels/row_sums.simd.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void target_dots(const void* x, const void* weight, const int64_t* targets,
                               int64_t rows, int64_t features, int64_t ignore_index,
                               E* dots) noexcept {
  const auto* a = static_cast<const typename S::Stored*>(x);
  const auto* const table = static_cast<const typename S::Stored*>(weight);
  for (int64_t r = 0; r < rows; ++r, a += features) {
    dots[r] = 0;
    if (targets[r] == ignore_index) continue;
    const auto* const b = table + targets[r] * features;
    dots[r] = sum_of_row<V, S>(features, [&](V sum, int64_t i, const auto& vector) {
      return fma(vector.load(a + i), vector.load(b + i), sum);
    });
  }
}

template <class V, class S>
RAPT_NOINLINE double squared_error(const void* x, const void* target, int64_t count) noexcept {
  const auto* const a = static_cast<const typename S::Stored*>(x);
  const auto* const b = static_cast<const typename S::Stored*>(target);
  return static_cast<double>(sum_of_row<V, S>(count, [&](V sum, int64_t i, const auto& vector) {
    const V d = sub(vector.load(a + i), vector.load(b + i));
    return fma(d, d, sum);
  }));
}

template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void squared_error_gradient(const void* x, const void* target, int64_t count,
                                          E factor, void* d_x) noexcept {
  const auto* const a = static_cast<const typename S::Stored*>(x);
  const auto* const b = static_cast<const typename S::Stored*>(target);
  auto* const to = static_cast<typename S::Stored*>(d_x);
  const V f = V::splat(factor);
  for_vectors<V, S>(0, count, [&](int64_t i, const auto& vector) {
    vector.save(to + i, mul(f, sub(vector.load(a + i), vector.load(b + i))));
  });
}

}  // namespace
}  // namespace rapt::RAPT_ISA

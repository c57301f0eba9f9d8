#pragma once
// Sums of squares, and products with one number, over arrays.
#include "kernels/inlining.h"
#include "nn/kernels/layer_kernels.h"

namespace rapt::RAPT_ISA {
namespace {

// In f64, in an order that the count alone decides: 16 sums, then halves onto halves. The square of
// a float is exact in f64, so that every set has the same bits for floats.
template <class E>
RAPT_NOINLINE double sum_of_squares(const E* x, int64_t count) noexcept {
  constexpr int64_t kSums = 16;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    UNROLL_FOR (int64_t j = 0; j < kSums; ++j) {
      const double a = x[i + j];
      sums[j] += a * a;
    }
  for (int64_t j = 0; i + j < count; ++j) {
    const double a = x[i + j];
    sums[j] += a * a;
  }
  for (int64_t half = kSums / 2; half > 0; half /= 2)
    for (int64_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void scale_array(E* x, int64_t count, double factor) noexcept {
  const V f = V::set(factor);
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) store(x + i, mul(f, V::load(x + i)));
  if (i < count) store_first(x + i, mul(f, V::load_first(x + i, count - i)), count - i);
}

}  // namespace
}  // namespace rapt::RAPT_ISA

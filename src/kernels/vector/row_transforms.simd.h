#pragma once
// The arithmetic of row transforms on [dims][rows]: rows are lanes, so that any two dimensions of a
// pair are whole vectors.
#include "kernels/inlining.h"
#include "kernels/kernel_table.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V, class E = typename V::Element>
RAPT_NOINLINE void rotate(E* rows_t, const DimPair* pairs, int64_t count, const E* cos_t,
                          const E* sin_t, int64_t rows) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    E* const first = rows_t + pairs[i].first * rows;
    E* const second = rows_t + pairs[i].second * rows;
    for (int64_t x = 0; x < rows; x += V::kLanes) {
      const V a = V::load(first + x), b = V::load(second + x);
      const V cos = V::load(cos_t + i * rows + x), sin = V::load(sin_t + i * rows + x);
      store(first + x, sub(mul(a, cos), mul(b, sin)));
      store(second + x, fma(b, cos, mul(a, sin)));
    }
  }
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void combine(E* rows_t, const E* other_t, int64_t dims, const E* factor,
                           const E* other_factor, int64_t rows) noexcept {
  for (int64_t x = 0; x < rows; x += V::kLanes) {
    const V f = V::load(factor + x), g = V::load(other_factor + x);
    for (int64_t d = 0; d < dims; ++d) {
      E* const at = rows_t + d * rows + x;
      store(at, fma(f, V::load(at), mul(g, V::load(other_t + d * rows + x))));
    }
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA

#pragma once
// A learned scale per head: s' = c s. If c > 0, it is also called an inverse temperature. With
// options.cosine (cosine.h) it is the learned inverse temperature of cosine attention.
//
//   scales  [..., heads], f32 or f64 (head_numbers.h)
//
// Source: Henry et al. 2020, arXiv:2010.04245, equation 4 (a learned factor instead of 1/sqrt(d));
// Liu et al. 2022, arXiv:2111.09883, equation 2 (one per head).
#include "rapt/head_numbers.h"
#include "rapt/score/score.h"

namespace rapt {

struct HeadScale {
  TensorView scales;  // must be given

  static const Declaration kDeclaration;
  static constexpr bool kUsesBefore = true, kUsesAfter = false;

  HeadScale() = default;
  explicit HeadScale(const TensorView& factors) : scales(factors) {}

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    const V scale = V::set(number_of_head(scales, *t.head));
    typename V::Element* const scores = t.scores;
    const int64_t count = t.keys * t.queries;
    for (int64_t x = 0; x < count; x += V::kLanes)
      store(scores + x, mul(scale, V::load(scores + x)));
  }

  // ds'/ds = c, ds'/dc = s.
  template <class V>
  void backward(const typename V::Element* before, const typename V::Element*,
                Tile<typename V::Element>& t, typename V::Element* sums) const noexcept {
    const V scale = V::set(number_of_head(scales, *t.head)), zero = V::set(0);
    const int64_t keys = t.keys, queries = t.queries;
    typename V::Element* const gradients = t.scores;
    for (int64_t i = 0; i < queries; i += V::kLanes) {
      V sum = zero;
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t at = j * queries + i;
        const V d = V::load(gradients + at);
        sum = add(sum, select(equal(d, zero), zero, mul(d, V::load(before + at))));
        store(gradients + at, mul(scale, d));
      }
      store(sums + i, add(V::load(sums + i), sum));
    }
  }

  template <class V>
  void tangent(const typename V::Element* before, Tile<typename V::Element>& t,
               const double* numbers) const noexcept {
    const V scale = V::set(number_of_head(scales, *t.head)), moved = V::set(numbers[0]);
    typename V::Element* const tangents = t.scores;
    const int64_t count = t.keys * t.queries;
    for (int64_t x = 0; x < count; x += V::kLanes)
      store(tangents + x, fma(scale, V::load(tangents + x), mul(moved, V::load(before + x))));
  }

  template <class V>
  void backward_tangent(const typename V::Element* before,
                        const typename V::Element* before_tangents, Tile<typename V::Element>& t,
                        typename V::Element* d_tangents, const double* numbers,
                        typename V::Element* sums) const noexcept {
    const V scale = V::set(number_of_head(scales, *t.head)), moved = V::set(numbers[0]);
    const V zero = V::set(0);
    const int64_t keys = t.keys, queries = t.queries;
    typename V::Element* const gradients = t.scores;
    for (int64_t i = 0; i < queries; i += V::kLanes) {
      V sum = zero;
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t at = j * queries + i;
        const V d = V::load(gradients + at), d_tangent = V::load(d_tangents + at);
        const V by_tangent = mul(d, V::load(before_tangents + at));
        const V by_score = mul(d_tangent, V::load(before + at));
        sum = add(sum, select(equal(d, zero), zero, by_tangent));
        sum = add(sum, select(equal(d_tangent, zero), zero, by_score));
        store(d_tangents + at, fma(scale, d_tangent, mul(moved, d)));
        store(gradients + at, mul(scale, d));
      }
      store(sums + i, add(V::load(sums + i), sum));
    }
  }
};

}  // namespace rapt

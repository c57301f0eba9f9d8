#pragma once
// A learned scale per head: s' = c s. If c > 0, it is also called an inverse temperature. With
// options.cosine (cosine.h) it is the learned inverse temperature of cosine attention.
//
//   scales  [..., heads], f32 or f64 (head_numbers.h)
//
// Source: Henry et al. 2020, arXiv:2010.04245, equation 4 (a learned factor instead of 1/sqrt(d));
// Liu et al. 2022, arXiv:2111.09883, equation 2 (one per head).
#include "rapt/head_numbers.h"
#include "rapt/score/pointwise.h"
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
    change_scores<V>(t, [&](V s, int64_t) { return mul(scale, s); });
  }

  // ds'/ds = c, ds'/dc = s.
  template <class V>
  void backward(const typename V::Element* before, const typename V::Element*,
                Tile<typename V::Element>& t, typename V::Element* sums) const noexcept {
    const V scale = V::set(number_of_head(scales, *t.head)), zero = V::set(0);
    typename V::Element* const gradients = t.scores;
    sum_over_keys<V>(t, sums, [&](int64_t at, V sum) {
      const V d = V::load(gradients + at);
      store(gradients + at, mul(scale, d));
      return add(sum, select(equal(d, zero), zero, mul(d, V::load(before + at))));
    });
  }

  template <class V>
  void tangent(const typename V::Element* before, Tile<typename V::Element>& t,
               const double* numbers) const noexcept {
    const V scale = V::set(number_of_head(scales, *t.head)), d_scale = V::set(numbers[0]);
    change_scores<V>(t, [&](V moved, int64_t at) {
      return fma(scale, moved, mul(d_scale, V::load(before + at)));
    });
  }

  template <class V>
  void backward_tangent(const typename V::Element* before,
                        const typename V::Element* before_tangents, Tile<typename V::Element>& t,
                        typename V::Element* d_tangents, const double* numbers,
                        typename V::Element* sums) const noexcept {
    const V scale = V::set(number_of_head(scales, *t.head)), d_scale = V::set(numbers[0]);
    const V zero = V::set(0);
    typename V::Element* const gradients = t.scores;
    sum_over_keys<V>(t, sums, [&](int64_t at, V sum) {
      const V d = V::load(gradients + at), d_tangent = V::load(d_tangents + at);
      const V by_tangent = mul(d, V::load(before_tangents + at));
      const V by_score = mul(d_tangent, V::load(before + at));
      store(d_tangents + at, fma(scale, d_tangent, mul(d_scale, d)));
      store(gradients + at, mul(scale, d));
      sum = add(sum, select(equal(d, zero), zero, by_tangent));
      return add(sum, select(equal(d_tangent, zero), zero, by_score));
    });
  }
};

}  // namespace rapt

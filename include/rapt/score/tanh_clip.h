#pragma once
// Clipped logits: s' = limit tanh s. The limit bounds how far weights can be from uniform: a key
// has at most e^(2 limit) times the weight of another. Unlike softcap, limit tanh(s / limit), it
// multiplies small scores by the limit. Pointer networks and attention models for routing use it
// with a limit of 10.
// Source: Bello et al. 2016, arXiv:1611.09940, appendix ("logit clipping"); Kool et al. 2019,
// arXiv:1803.08475, equation 7.
#include "rapt/score/pointwise.h"
#include "rapt/score/score.h"

namespace rapt {

struct TanhClip {
  double limit = 0;  // above 0; must be given

  static const Declaration kDeclaration;
  static constexpr bool kPlaceless = true;
  static constexpr bool kUsesBefore = false, kUsesAfter = true;

  TanhClip() = default;
  explicit TanhClip(double largest) : limit(largest) {}

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    const V limit_v = V::set(limit);
    change_scores<V>(t, [&](V s, int64_t) { return mul(limit_v, tanh(s)); });
  }

  // With y = tanh s: ds'/ds = limit (1 - y^2), ds'/dlimit = y.
  template <class V>
  void backward(const typename V::Element*, const typename V::Element* after,
                Tile<typename V::Element>& t, typename V::Element* sums) const noexcept {
    const V limit_v = V::set(limit), inverse = V::set(1 / limit), one = V::set(1), zero = V::set(0);
    typename V::Element* const gradients = t.scores;
    sum_over_keys<V>(t, sums, [&](int64_t at, V sum) {
      const V d = V::load(gradients + at), y = mul(V::load(after + at), inverse);
      const V slope = mul(limit_v, sub(one, mul(y, y)));
      const auto none = equal(d, zero);
      store(gradients + at, select(none, zero, mul(d, slope)));
      return add(sum, select(none, zero, mul(d, y)));
    });
  }

  // ds'/ds times the tangent of s, plus y times the tangent of the limit.
  template <class V>
  void tangent(const typename V::Element* before, Tile<typename V::Element>& t,
               const double* parameters) const noexcept {
    const V limit_v = V::set(limit), one = V::set(1), d_limit = V::set(parameters[0]);
    change_scores<V>(t, [&](V moved, int64_t at) {
      const V y = tanh(V::load(before + at)), slope = mul(limit_v, sub(one, mul(y, y)));
      return fma(slope, moved, mul(y, d_limit));
    });
  }

  // With u = 1 - y^2 and the tangents ds and dlimit: y has the tangent u ds, and ds'/ds has
  // u (dlimit - 2 limit y ds).
  template <class V>
  void backward_tangent(const typename V::Element* before,
                        const typename V::Element* before_tangents, Tile<typename V::Element>& t,
                        typename V::Element* d_tangents, const double* parameters,
                        typename V::Element* sums) const noexcept {
    const V limit_v = V::set(limit), one = V::set(1), zero = V::set(0);
    const V d_limit = V::set(parameters[0]), minus_twice = V::set(-2 * limit);
    typename V::Element* const gradients = t.scores;
    sum_over_keys<V>(t, sums, [&](int64_t at, V sum) {
      const V d = V::load(gradients + at), d_tangent = V::load(d_tangents + at);
      const V y = tanh(V::load(before + at)), u = sub(one, mul(y, y));
      const V slope = mul(limit_v, u), moved = V::load(before_tangents + at);
      const V bend = mul(u, fma(mul(minus_twice, y), moved, d_limit));
      const auto none = equal(d, zero), still = equal(d_tangent, zero);
      const V turned = select(none, zero, mul(d, bend));
      store(d_tangents + at, add(select(still, zero, mul(d_tangent, slope)), turned));
      store(gradients + at, select(none, zero, mul(d, slope)));
      sum = add(sum, select(none, zero, mul(d, mul(u, moved))));
      return add(sum, select(still, zero, mul(d_tangent, y)));
    });
  }
};

}  // namespace rapt

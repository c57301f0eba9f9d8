#pragma once
// Soft cap: s' = cap tanh(s / cap). It leaves small scores nearly unchanged and keeps all scores
// within +-cap. It is applied before bias and masks, as in flash-attention, Hugging Face and ONNX
// since 1.22; on request after the bias (BiasOrder), as in x-transformers.
// Source: Gemma Team 2024 (Gemma 2), arXiv:2408.00118, section 2; Bello et al. 2017,
// arXiv:1611.09940, appendix ("clipping").
#include "rapt/score/pointwise.h"
#include "rapt/score/score.h"

namespace rapt {

struct Softcap {
  double cap = 0;  // above 0; must be given

  static const Declaration kDeclaration;
  static constexpr bool kPlaceless = true;
  static constexpr bool kUsesBefore = true, kUsesAfter = true;

  Softcap() = default;
  explicit Softcap(double largest) : cap(largest) {}

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    // Multiplies by 1 / cap instead of dividing. The roundings of 1 / cap and of cap itself change
    // the score by at most one part in 10^7.
    const V cap_v = V::set(cap), inverse = V::set(1 / cap);
    change_scores<V>(t, [&](V s, int64_t) { return mul(cap_v, tanh(mul(s, inverse))); });
  }

  // With x = s / cap: ds'/ds = 1 - tanh^2 x, ds'/dcap = tanh x - x (1 - tanh^2 x).
  template <class V>
  void backward(const typename V::Element* before, const typename V::Element* after,
                Tile<typename V::Element>& t, typename V::Element* sums) const noexcept {
    const V inverse = V::set(1 / cap), one = V::set(1), zero = V::set(0);
    typename V::Element* const gradients = t.scores;
    sum_over_keys<V>(t, sums, [&](int64_t at, V sum) {
      const V d = V::load(gradients + at), x = mul(V::load(before + at), inverse);
      const V y = mul(V::load(after + at), inverse), slope = sub(one, mul(y, y));
      const auto none = equal(d, zero);
      store(gradients + at, select(none, zero, mul(d, slope)));
      return add(sum, select(none, zero, mul(d, sub(y, mul(x, slope)))));
    });
  }

  // ds'/ds times the tangent of s, plus ds'/dcap times the tangent of the cap.
  template <class V>
  void tangent(const typename V::Element* before, Tile<typename V::Element>& t,
               const double* parameters) const noexcept {
    const V inverse = V::set(1 / cap), one = V::set(1), d_cap = V::set(parameters[0]);
    change_scores<V>(t, [&](V moved, int64_t at) {
      const V x = mul(V::load(before + at), inverse), y = tanh(x), slope = sub(one, mul(y, y));
      return fma(slope, moved, mul(sub(y, mul(x, slope)), d_cap));
    });
  }

  // With y = tanh x, slope = 1 - y^2 and dx = (ds - x dcap) / cap, where ds and dcap are the
  // tangents of s and cap: the slope has the tangent -2 y slope dx, and ds'/dcap = y - x slope has
  // 2 x y slope dx.
  template <class V>
  void backward_tangent(const typename V::Element* before,
                        const typename V::Element* before_tangents, Tile<typename V::Element>& t,
                        typename V::Element* d_tangents, const double* parameters,
                        typename V::Element* sums) const noexcept {
    const V inverse = V::set(1 / cap), one = V::set(1), zero = V::set(0), two = V::set(2);
    const V d_cap = V::set(parameters[0]);
    typename V::Element* const gradients = t.scores;
    sum_over_keys<V>(t, sums, [&](int64_t at, V sum) {
      const V d = V::load(gradients + at), d_tangent = V::load(d_tangents + at);
      const V x = mul(V::load(before + at), inverse);
      const V y = tanh(x), slope = sub(one, mul(y, y));
      const V moved = mul(sub(V::load(before_tangents + at), mul(x, d_cap)), inverse);
      const V bend = mul(two, mul(mul(y, slope), moved));
      const auto none = equal(d, zero), still = equal(d_tangent, zero);
      const V turned = select(none, zero, mul(d, bend));
      store(d_tangents + at, sub(select(still, zero, mul(d_tangent, slope)), turned));
      store(gradients + at, select(none, zero, mul(d, slope)));
      sum = add(sum, select(none, zero, mul(d, mul(x, bend))));
      return add(sum, select(still, zero, mul(d_tangent, sub(y, mul(x, slope)))));
    });
  }
};

}  // namespace rapt

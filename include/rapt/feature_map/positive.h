#pragma once
// Positive random features, FAVOR+:
//
//   phi(x)_i = exp(w_i . x - |x|^2 / 2)      E[phi(x) . phi(y)] / m = exp(x . y), w_i ~ N(0, 1)
//
// FAVOR++ adds A |w_i|^2 to the exponents, which arrives here as offsets.
//
// Gradient: d_input_i = d_phi_i phi_i, d_half_square = -sum_i d_phi_i phi_i.
//
// Source: Choromanski et al. 2021, arXiv:2009.14794, Lemma 1; Likhosherstov et al. 2022,
// arXiv:2205.15317.
#include "rapt/feature_map/exponential.h"

namespace rapt {

// Exponentials of the projections.
struct PositiveFeatures {
  static constexpr Declaration kDeclaration = {
      "positive",
      "e^(w . x - |x|^2 / 2) of each row w of a projection (favor)",
      "Choromanski et al. 2021, arXiv:2009.14794, Lemma 1",
      {}};
  static constexpr bool kProjects = true;
  static constexpr int64_t features(int64_t inputs) noexcept { return inputs; }

  template <class V>
  static void apply(const FeatureTile<typename V::Element>& t) noexcept {
    exponential_features<V, false>(t);
  }

  template <class V>
  static void backward(const FeatureTile<typename V::Element>& t,
                       const FeatureGradient<typename V::Element>& g) noexcept {
    const V zero = V::set(0);
    for (int64_t x = 0; x < t.tokens; x += V::kLanes) {
      V sum = zero;
      for (int64_t i = 0; i < t.input_count; ++i) {
        const V d =
            mul(V::load(g.d_features + i * t.tokens + x), V::load(t.features + i * t.stride + x));
        store(g.d_inputs + i * t.tokens + x, d);
        sum = add(sum, d);
      }
      store(g.d_half_squares + x, sub(zero, sum));
    }
  }
};

}  // namespace rapt

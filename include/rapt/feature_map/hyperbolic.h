#pragma once
// Hyperbolic random features: each row of the projection serves with both signs.
//
//   phi(x) = exp(-|x|^2 / 2) [exp(w_i . x), exp(-w_i . x)]      E[phi(x) . phi(y)] / 2m = exp(x .
//   y)
//
// Their mean squared error is (1 - exp(-|x + y|^2)) / 2 times that of m positive ones.
//
// Gradient: d_input_i = d_phi_i phi_i - d_phi_(m+i) phi_(m+i), d_half_square = -sum d_phi phi.
//
// Source: Choromanski et al. 2021, arXiv:2009.14794, Lemma 1 and 2.
#include "rapt/feature_map/exponential.h"

namespace rapt {

// Exponentials of the projections and of their negatives.
struct HyperbolicFeatures {
  static constexpr Declaration kDeclaration = {
      "hyperbolic",
      "as positive, each row with both signs: two features (favor)",
      "Choromanski et al. 2021, arXiv:2009.14794, Lemma 1",
      {}};
  static constexpr bool kProjects = true;
  static constexpr int64_t features(int64_t inputs) noexcept { return 2 * inputs; }

  template <class V>
  static void apply(const FeatureTile<typename V::Element>& t) noexcept {
    exponential_features<V, true>(t);
  }

  template <class V>
  static void backward(const FeatureTile<typename V::Element>& t,
                       const FeatureGradient<typename V::Element>& g) noexcept {
    const V zero = V::set(0);
    for (int64_t x = 0; x < t.tokens; x += V::kLanes) {
      V sum = zero;
      for (int64_t i = 0; i < t.input_count; ++i) {
        const int64_t j = i + t.input_count;
        const V plus =
            mul(V::load(g.d_features + i * t.tokens + x), V::load(t.features + i * t.stride + x));
        const V minus =
            mul(V::load(g.d_features + j * t.tokens + x), V::load(t.features + j * t.stride + x));
        store(g.d_inputs + i * t.tokens + x, sub(plus, minus));
        sum = add(sum, add(plus, minus));
      }
      store(g.d_half_squares + x, sub(zero, sum));
    }
  }
};

}  // namespace rapt

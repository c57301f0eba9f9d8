#pragma once
// phi(x)_i = max(0, x_i). A query without a feature in common with its keys has the sum 0 of
// weights, and the output 0 / 0.
//
// Gradient: 1 for x_i > 0, 0 else.
//
// Source: Choromanski et al. 2021, arXiv:2009.14794, section 4 (generalised attention); Kasai et
// al. 2021, arXiv:2103.13076.
#include "rapt/feature_map/pointwise.h"

namespace rapt {

// max(0, x) of each input.
struct ReluFeatures {
  static constexpr Declaration kDeclaration = {
      "relu",
      "max(0, x) of each dimension (linear)",
      "Choromanski et al. 2021, arXiv:2009.14794, section 4; Kasai et al. 2021, arXiv:2103.13076",
      {}};
  static constexpr bool kProjects = false;
  static constexpr int64_t features(int64_t inputs) noexcept { return inputs; }

  template <class V>
  static void apply(const FeatureTile<typename V::Element>& t) noexcept {
    const V zero = V::set(0);
    map_inputs<V>(t, [&](V x) { return select(not_at_most(x, zero), x, zero); });
  }

  template <class V>
  static void backward(const FeatureTile<typename V::Element>& t,
                       const FeatureGradient<typename V::Element>& g) noexcept {
    const V zero = V::set(0), one = V::set(1);
    multiply_slopes<V>(t, g, [&](V x, V) {
      return select(not_at_most(x, zero), select(equal(x, x), one, x), zero);
    });
  }
};

}  // namespace rapt

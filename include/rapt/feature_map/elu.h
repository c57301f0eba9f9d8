#pragma once
// elu(x) + 1:  phi(x)_i = x_i + 1 for x_i > 0, e^x_i else.
//
// Gradient: 1 for x_i > 0, phi_i else.
//
// Source: Katharopoulos et al. 2020, arXiv:2006.16236, equation 7. They do not scale the query:
// give the call the scale 1.
#include "rapt/feature_map/pointwise.h"

namespace rapt {

// elu(x) + 1 of each input.
struct EluFeatures {
  static constexpr Declaration kDeclaration = {
      "elu",
      "x + 1 above 0, else e^x, of each dimension (linear)",
      "Katharopoulos et al. 2020, arXiv:2006.16236, equation 7",
      {}};
  static constexpr bool kProjects = false;
  static constexpr int64_t features(int64_t inputs) noexcept { return inputs; }

  template <class V>
  static void apply(const FeatureTile<typename V::Element>& t) noexcept {
    const V zero = V::set(0), one = V::set(1), log2_e = V::set(kLog2E);
    map_inputs<V>(t, [&](V x) {
      const auto above = not_at_most(x, zero);  // also where x is NaN
      return select(above, add(x, one), exp2(select(above, zero, mul(log2_e, x))));
    });
  }

  template <class V>
  static void backward(const FeatureTile<typename V::Element>& t,
                       const FeatureGradient<typename V::Element>& g) noexcept {
    const V zero = V::set(0), one = V::set(1);
    multiply_slopes<V>(t, g, [&](V x, V feature) {
      return select(not_at_most(x, zero), select(equal(x, x), one, x), feature);
    });
  }
};

}  // namespace rapt

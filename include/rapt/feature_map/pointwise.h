#pragma once
// Loops of feature maps with a feature per dimension: phi(x)_i = f(x_i).
#include "rapt/feature_map/feature_map.h"

namespace rapt {

// Calls function(V x) for every input and stores what it returns.
template <class V, class Function>
inline void map_inputs(const FeatureTile<typename V::Element>& t, const Function& function) {
  for (int64_t i = 0; i < t.input_count; ++i)
    for (int64_t x = 0; x < t.tokens; x += V::kLanes)
      store(t.features + i * t.stride + x, function(V::load(t.inputs + i * t.tokens + x)));
}

// d_inputs = d_features slope(input, feature).
template <class V, class Slope>
inline void multiply_slopes(const FeatureTile<typename V::Element>& t,
                            const FeatureGradient<typename V::Element>& g, const Slope& slope) {
  for (int64_t i = 0; i < t.input_count; ++i)
    for (int64_t x = 0; x < t.tokens; x += V::kLanes) {
      const int64_t at = i * t.tokens + x;
      const V d = slope(V::load(t.inputs + at), V::load(t.features + i * t.stride + x));
      store(g.d_inputs + at, mul(V::load(g.d_features + at), d));
    }
}

}  // namespace rapt

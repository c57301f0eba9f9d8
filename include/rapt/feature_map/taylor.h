#pragma once
// The Taylor series of e^(x . y) to its second term, as features:
//
//   phi(x) . phi(y) = 1 + x . y + (x . y)^2 / 2
//   phi(x) = [1, x_i, x_i^2 / sqrt(2), x_i x_j for i < j]      1 + d + d (d + 1) / 2 features
//
// Weights are at least 1/2. The features grow with the square of head_dim: projections to 16
// dimensions are usual.
//
// Gradient: d_x_i = d_phi_(x_i) + sqrt(2) x_i d_phi_(x_i^2) + sum_(j != i) x_j d_phi_(x_i x_j).
//
// Source: Arora et al. 2024 (Based), arXiv:2402.18668, section 3.1.
#include "rapt/feature_map/feature_map.h"

namespace rapt {

// The terms of 1 + s + s^2 / 2.
struct TaylorFeatures {
  static constexpr Declaration kDeclaration = {
      "taylor",
      "1, x and products of two dimensions: weights 1 + s + s^2 / 2 of a score s (linear)",
      "Arora et al. 2024 (Based), arXiv:2402.18668, section 3.1",
      {}};
  static constexpr bool kProjects = false;
  static constexpr int64_t features(int64_t inputs) noexcept {
    return 1 + inputs + inputs * (inputs + 1) / 2;
  }

  template <class V>
  static void apply(const FeatureTile<typename V::Element>& t) noexcept {
    using E = typename V::Element;
    const int64_t d = t.input_count;
    for (int64_t x = 0; x < t.tokens; x += V::kLanes) {
      E* out = t.features + x;
      store(out, V::set(1));
      out += t.stride;
      for (int64_t i = 0; i < d; ++i, out += t.stride)
        store(out, V::load(t.inputs + i * t.tokens + x));
      for (int64_t i = 0; i < d; ++i) {
        const V a = V::load(t.inputs + i * t.tokens + x);
        store(out, mul(mul(a, a), V::set(kHalfRoot)));
        out += t.stride;
        for (int64_t j = i + 1; j < d; ++j, out += t.stride)
          store(out, mul(a, V::load(t.inputs + j * t.tokens + x)));
      }
    }
  }

  // d_inputs may be d_features: all features behind the first 1 + d are read before any input's
  // gradient is stored, because those are summed in place in rows 1 to d and then moved.
  template <class V>
  static void backward(const FeatureTile<typename V::Element>& t,
                       const FeatureGradient<typename V::Element>& g) noexcept {
    using E = typename V::Element;
    const int64_t d = t.input_count, step = t.tokens;
    for (int64_t x = 0; x < t.tokens; x += V::kLanes) {
      E* const sums = g.d_features + step + x;  // rows 1 to d
      const E* of_pair = sums + d * step;
      for (int64_t i = 0; i < d; ++i) {
        const V a = V::load(t.inputs + i * step + x);
        V sum = fma(mul(a, V::set(2 * kHalfRoot)), V::load(of_pair), V::load(sums + i * step));
        of_pair += step;
        for (int64_t j = i + 1; j < d; ++j, of_pair += step) {
          const V pair = V::load(of_pair), b = V::load(t.inputs + j * step + x);
          sum = fma(b, pair, sum);
          store(sums + j * step, fma(a, pair, V::load(sums + j * step)));
        }
        store(sums + i * step, sum);
      }
      for (int64_t i = 0; i < d; ++i) store(g.d_inputs + i * step + x, V::load(sums + i * step));
    }
  }

 private:
  static constexpr double kHalfRoot = 0.70710678118654752;  // 1 / sqrt(2)
};

}  // namespace rapt

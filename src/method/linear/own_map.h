#pragma once
// A feature map of the caller's own (rapt/feature_map/own_features.h) over the lanes of a tile.
#include <algorithm>

#include "base/scratch_planner.h"
#include "rapt/feature_map/feature_map.h"
#include "rapt/feature_map/own_features.h"

namespace rapt {

struct OwnMapPlaces {
  Place<double> x, phi, d_phi, d_x;  // of one token
};

// `gradients`: whether backward() will be called.
inline OwnMapPlaces place_own_map(const OwnFeatures* own, int64_t dims, bool gradients,
                                  ScratchPlanner<Per::worker>& planner) {
  OwnMapPlaces places;
  if (own == nullptr) return places;
  planner.place(places.x, {dims});
  planner.place_if(gradients, places.d_x, {dims});
  planner.place(places.phi, {own->features});
  planner.place_if(gradients, places.d_phi, {own->features});
  return places;
}

// The hooks of a map (rapt/feature_map/feature_map.h), token by token.
template <class E>
class OwnMap {
 public:
  OwnMap(const OwnFeatures& own, const OwnMapPlaces& places, std::byte* scratch) noexcept
      : own_(own),
        x_(places.x.in(scratch)),
        phi_(places.phi.in(scratch)),
        d_phi_(places.d_phi.in(scratch)),
        d_x_(places.d_x.in(scratch)) {}

  // Lanes from `count` on have the features 0.
  void apply(const FeatureTile<E>& t, int64_t count) noexcept {
    count_ = count;
    for (int64_t f = 0; f < own_.features; ++f)
      std::fill(t.features + f * t.stride + count, t.features + f * t.stride + t.tokens, E(0));
    for (int64_t token = 0; token < count; ++token) {
      gather(t.inputs + token, t.input_count, t.tokens, x_);
      own_.apply(own_.user, x_, t.input_count, phi_);
      for (int64_t f = 0; f < own_.features; ++f)
        t.features[f * t.stride + token] = static_cast<E>(phi_[f]);
    }
  }

  // The features of the tokens of the last apply().
  void backward(const FeatureTile<E>& t, const FeatureGradient<E>& g) const noexcept {
    std::fill_n(g.d_inputs, t.input_count * t.tokens, E(0));
    for (int64_t token = 0; token < count_; ++token) {
      gather(t.inputs + token, t.input_count, t.tokens, x_);
      gather(t.features + token, own_.features, t.stride, phi_);
      gather(g.d_features + token, own_.features, t.tokens, d_phi_);
      own_.backward(own_.user, x_, t.input_count, phi_, d_phi_, d_x_);
      for (int64_t i = 0; i < t.input_count; ++i)
        g.d_inputs[i * t.tokens + token] = static_cast<E>(d_x_[i]);
    }
  }

 private:
  static void gather(const E* from, int64_t count, int64_t stride, double* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }

  const OwnFeatures& own_;
  double *x_, *phi_, *d_phi_, *d_x_;
  int64_t count_ = 0;
};

}  // namespace rapt

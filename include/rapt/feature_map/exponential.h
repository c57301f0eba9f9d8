#pragma once
// Exponential features of a tile, which positive and hyperbolic maps share:
//
//   features_i = 2^(log2(e) (s_i + offset_i) - c - f)    power = c - n
//
// with c the nearest integer to the largest exponent of the token, and n + f = log2(e) |x|^2 / 2,
// n its nearest integer. So the largest feature of a token lies between 2^-1 and 2.
#include "rapt/feature_map/feature_map.h"

namespace rapt {

// The largest exponent of a vector of tokens, or of both signs of the inputs.
template <class V, bool kBothSigns>
[[gnu::always_inline]] inline V largest_exponent(const FeatureTile<typename V::Element>& t,
                                                 int64_t x) noexcept {
  constexpr int kChains = 4;  // hide the latency of max
  V most[kChains];
  for (V& m : most) m = V::set(-__builtin_inf());
  for (int64_t i = 0; i < t.input_count; ++i) {
    V s = V::load(t.inputs + i * t.tokens + x);
    if constexpr (kBothSigns) s = abs(s);
    if (t.offsets) s = add(s, V::splat(t.offsets[i]));
    most[i % kChains] = max(s, most[i % kChains]);
  }
  return max(max(most[0], most[1]), max(most[2], most[3]));
}

// kBothSigns: the features of -s follow those of s.
template <class V, bool kBothSigns>
inline void exponential_features(const FeatureTile<typename V::Element>& t) noexcept {
  using E = typename V::Element;
  const V log2_e = V::set(kLog2E), minus_log2_e = V::set(-kLog2E);
  for (int64_t x = 0; x < t.tokens; x += V::kLanes) {
    const V c = finite_or_zero(nearest_integer(mul(log2_e, largest_exponent<V, kBothSigns>(t, x))));
    const V half = mul(log2_e, V::load(t.half_squares + x)), n = nearest_integer(half);
    store(t.powers + x, finite_or_zero(sub(c, n)));
    const V shift = sub(sub(n, half), c);
    const E* input = t.inputs + x;
    E *out = t.features + x, *other = out + t.input_count * t.stride;
    for (int64_t i = 0; i < t.input_count;
         ++i, input += t.tokens, out += t.stride, other += t.stride) {
      const V s = V::load(input);
      const V of_token = t.offsets ? fma(V::splat(t.offsets[i]), log2_e, shift) : shift;
      store(out, exp2(fma(s, log2_e, of_token)));
      if constexpr (kBothSigns) store(other, exp2(fma(s, minus_log2_e, of_token)));
    }
  }
}

}  // namespace rapt

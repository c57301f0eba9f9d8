#pragma once
// The interface of a feature map: a token x becomes features phi(x), and phi(x) . phi(y) stands for
// the weight of a pair before normalisation.
//
// x is the query or key times the square root of the scale. A map with a projection W [m, head_dim]
// gets the inputs W x, any other the dimensions of x. A map M is a struct with
//
//   static constexpr Declaration kDeclaration;  name, purpose, source; no parameters
//   static constexpr bool kProjects;            does it read W x and |x|^2 / 2?
//   static int64_t features(int64_t inputs)     how many features it makes
//
// and these hooks, static, noexcept, templates over the vector type V, in which lanes are tokens:
//
//   apply<V>(tile)     inputs -> features and powers: phi(x) = 2^power features. The power is an
//                      integer that depends on the token alone, so that features neither overflow
//                      nor lose digits; sums over tokens apply it exactly
//   backward<V>(tile, gradient)   reads the features of apply(); d_features -> d_inputs and, for a
//                      map with a projection, d_half_squares. Powers count as constants
//
// A token with an element that is not finite has features that are not, and a power that is finite.
#include <cstdint>

#include "rapt/declaration.h"

namespace rapt {

// Tokens whose features a map computes, and where it writes them.
template <class E>
struct FeatureTile {
  const E* inputs;  // [inputs][tokens]: W x, or x
  int64_t input_count;
  int64_t tokens;         // whole vectors
  const E* half_squares;  // [tokens] |x|^2 / 2; maps with a projection only
  const E* offsets;       // [inputs] added to the exponents of exponential features; null: 0
  E* features;            // [features], rows `stride` apart
  int64_t stride;
  E* powers;  // [tokens] integers; null: 0, and the map writes none
};

// Gradients of a tile's tokens. d_inputs may be d_features.
template <class E>
struct FeatureGradient {
  E* d_features;      // [features][tokens]; may be overwritten
  E* d_inputs;        // [inputs][tokens]
  E* d_half_squares;  // [tokens]; maps with a projection only
};

// The nearest integer, for |x| below 2^22 (2^51 for f64).
template <class V>
[[gnu::always_inline]] inline V nearest_integer(V x) noexcept {
  const V shift = V::set(sizeof(typename V::Element) == 4 ? 0x1.8p23 : 0x1.8p52);
  return sub(add(x, shift), shift);
}

// x, or 0 where x is not finite.
template <class V>
[[gnu::always_inline]] inline V finite_or_zero(V x) noexcept {
  return select(equal(sub(x, x), V::set(0)), x, V::set(0));
}

inline constexpr double kLog2E = 1.4426950408889634;

}  // namespace rapt

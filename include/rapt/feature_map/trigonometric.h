#pragma once
// Trigonometric random features (random Fourier features):
//
//   phi(x) = exp(|x|^2 / 2) [cos(w_i . x), sin(w_i . x)]      E[phi(x) . phi(y)] / m = exp(x . y)
//
// Weights may be negative, and so may their sum.
//
// Gradient: d_input_i = d_phi_(m+i) phi_i - d_phi_i phi_(m+i), d_half_square = sum d_phi phi.
//
// Source: Rahimi & Recht 2007; Choromanski et al. 2021, arXiv:2009.14794, equation 4.
#include "rapt/feature_map/feature_map.h"

namespace rapt {

// Sines and cosines of the projections.
struct TrigonometricFeatures {
  static constexpr Declaration kDeclaration = {
      "trigonometric",
      "e^(|x|^2 / 2) times cos(w . x) and sin(w . x): two features a row (favor)",
      "Rahimi & Recht 2007; Choromanski et al. 2021, arXiv:2009.14794, equation 4",
      {}};
  static constexpr bool kProjects = true;
  static constexpr int64_t features(int64_t inputs) noexcept { return 2 * inputs; }

  template <class V>
  static void apply(const FeatureTile<typename V::Element>& t) noexcept {
    using E = typename V::Element;
    const V log2_e = V::set(kLog2E);
    for (int64_t x = 0; x < t.tokens; x += V::kLanes) {
      const V half = mul(log2_e, V::load(t.half_squares + x)), n = nearest_integer(half);
      store(t.powers + x, finite_or_zero(n));
      const V factor = exp2(sub(half, n));
      const E* input = t.inputs + x;
      E *cosine = t.features + x, *sine = cosine + t.input_count * t.stride;
      for (int64_t i = 0; i < t.input_count;
           ++i, input += t.tokens, cosine += t.stride, sine += t.stride) {
        V c, s;
        cosine_and_sine(V::load(input), c, s);
        store(cosine, mul(factor, c));
        store(sine, mul(factor, s));
      }
    }
  }

  template <class V>
  static void backward(const FeatureTile<typename V::Element>& t,
                       const FeatureGradient<typename V::Element>& g) noexcept {
    for (int64_t x = 0; x < t.tokens; x += V::kLanes) {
      V sum = V::set(0);
      for (int64_t i = 0; i < t.input_count; ++i) {
        const int64_t j = i + t.input_count;
        const V d_cosine = V::load(g.d_features + i * t.tokens + x),
                d_sine = V::load(g.d_features + j * t.tokens + x),
                cosine = V::load(t.features + i * t.stride + x),
                sine = V::load(t.features + j * t.stride + x);
        store(g.d_inputs + i * t.tokens + x, sub(mul(d_sine, cosine), mul(d_cosine, sine)));
        sum = fma(d_cosine, cosine, fma(d_sine, sine, sum));
      }
      store(g.d_half_squares + x, sum);
    }
  }

 private:
  // The angle is reduced to a quarter of a turn; Taylor series up to pi / 4.
  template <class V>
  [[gnu::always_inline]] static void cosine_and_sine(V angle, V& cosine, V& sine) noexcept {
    const V quarters = mul(angle, V::set(0.63661977236758134));  // 2 / pi
    const V k = nearest_integer(quarters);
    const V r = mul(sub(quarters, k), V::set(1.5707963267948966)), square = mul(r, r);
    constexpr int kTerms = sizeof(typename V::Element) == 4 ? 5 : 9;
    V c = V::set(0), s = V::set(0);
    for (int i = kTerms; i > 0; --i) {
      // 1 + -square / ((2i - 1) 2i) (...), and the same for the sine with (2i) (2i + 1).
      const V one = V::set(1);
      c = mul(mul(square, V::set(-1.0 / ((2 * i - 1) * (2 * i)))), add(one, c));
      s = mul(mul(square, V::set(-1.0 / ((2 * i) * (2 * i + 1)))), add(one, s));
    }
    c = add(V::set(1), c), s = fma(r, s, r);
    // k mod 4 as a number in [-2, 2].
    const V turn = sub(k, mul(V::set(4), nearest_integer(mul(k, V::set(0.25)))));
    const V zero = V::set(0), two = V::set(2);
    const auto odd = equal(abs(turn), V::set(1)), half = equal(abs(turn), two);
    const auto minus = equal(turn, V::set(-1));
    // 0: (c, s); 1: (-s, c); 2: (-c, -s); -1: (s, -c).
    const V a = select(odd, s, c), b = select(odd, c, s);
    const V na = sub(zero, a), nb = sub(zero, b);
    cosine = select(half, na, select(odd, select(minus, a, na), a));
    sine = select(half, nb, select(minus, nb, b));
  }
};

}  // namespace rapt

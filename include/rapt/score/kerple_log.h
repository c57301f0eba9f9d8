#pragma once
// KERPLE's logarithmic bias: a penalty that grows with the logarithm of the distance, so that
// distant keys still count. Both parameters, a and b, are learned per head.
//
//   s' = s - a ln(1 + b |i - j|)       i counted by the anchor (anchor.h)
//
//   amplitudes  [..., heads], f32 or f64 (head_numbers.h): a; the paper requires a > 0
//   rates       [..., heads], f32 or f64: b, at least 0
//
// b -> 0 with a b = m gives ALiBi's m |i - j|. This holds even if 1 + b d rounds to 1, because the
// rounding error is added to the logarithm.
//
// Source: Chi et al. 2022, "KERPLE: Kernelized Relative Positional Embedding for Length
// Extrapolation", arXiv:2205.09921, equation 4 (logarithmic variant, r1 = a, r2 = b).
#include "rapt/anchor.h"
#include "rapt/head_numbers.h"
#include "rapt/score/distances.h"
#include "rapt/score/score.h"

namespace rapt {

struct KerpleLog {
  TensorView amplitudes;  // must be given
  TensorView rates;       // must be given
  Anchor anchor = Anchor::top_left;

  static const Declaration kDeclaration;
  static constexpr bool kUsesBefore = false, kUsesAfter = false;

  KerpleLog() = default;
  KerpleLog(const TensorView& amplitude, const TensorView& rate)
      : amplitudes(amplitude), rates(rate) {}

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    const V minus_a = V::set(-number_of_head(amplitudes, *t.head));
    typename V::Element* const scores = t.scores;
    const V rate = V::set(number_of_head(rates, *t.head));
    for_each_of_distance<1, V>(
        t, anchor,
        [&](V d) { return OfDistances<V, 1>{{mul(minus_a, grown_by(rate, d).logarithm)}}; }, [] {},
        [&](int64_t at, const OfDistances<V, 1>& bias) {
          store(scores + at, add(V::load(scores + at), bias.of[0]));
        },
        [](int64_t) {});
  }

  // ds'/ds = 1, ds'/da = -ln(1 + b d), ds'/db = -a q with q = d / (1 + b d).
  template <class V>
  void backward(const typename V::Element*, const typename V::Element*,
                Tile<typename V::Element>& t, typename V::Element* sums) const noexcept {
    const V minus_a = V::set(-number_of_head(amplitudes, *t.head)), zero = V::set(0);
    const typename V::Element* const gradients = t.scores;
    V by_a = zero, by_q = zero;
    visit<V>(
        t, [&] { by_a = by_q = zero; },
        [&](int64_t at, V logarithm, V q) {
          const V g = V::load(gradients + at);
          by_a = fma(g, logarithm, by_a);
          by_q = fma(g, q, by_q);
        },
        [&](int64_t x) {
          store(sums + x, sub(V::load(sums + x), by_a));
          typename V::Element* const of_rate = sums + t.queries + x;
          store(of_rate, fma(minus_a, by_q, V::load(of_rate)));
        });
  }

  template <class V>
  void tangent(const typename V::Element*, Tile<typename V::Element>& t,
               const double* numbers) const noexcept {
    const V minus_da = V::set(-numbers[0]),
            minus_a_db = V::set(-number_of_head(amplitudes, *t.head) * numbers[1]);
    typename V::Element* const tangents = t.scores;
    visit<V>(
        t, [] {},
        [&](int64_t at, V logarithm, V q) {
          const V moved = fma(minus_da, logarithm, V::load(tangents + at));
          store(tangents + at, fma(minus_a_db, q, moved));
        },
        [](int64_t) {});
  }

  // dq/db = -q^2; da and db are the tangents of a and b.
  template <class V>
  void backward_tangent(const typename V::Element*, const typename V::Element*,
                        Tile<typename V::Element>& t, typename V::Element* d_tangents,
                        const double* numbers, typename V::Element* sums) const noexcept {
    const double a = number_of_head(amplitudes, *t.head);
    const V minus_a = V::set(-a), minus_da = V::set(-numbers[0]), db = V::set(numbers[1]);
    const V a_db = V::set(a * numbers[1]), zero = V::set(0);
    const typename V::Element* const gradients = t.scores;
    V by_a = zero, by_b = zero;
    visit<V>(
        t, [&] { by_a = by_b = zero; },
        [&](int64_t at, V logarithm, V q) {
          const V g = V::load(gradients + at), dg = V::load(d_tangents + at), gq = mul(g, q);
          by_a = fma(dg, logarithm, fma(gq, db, by_a));
          by_b = fma(fma(minus_a, dg, mul(minus_da, g)), q, fma(a_db, mul(gq, q), by_b));
        },
        [&](int64_t x) {
          store(sums + x, sub(V::load(sums + x), by_a));
          typename V::Element* const of_rate = sums + t.queries + x;
          store(of_rate, add(V::load(of_rate), by_b));
        });
  }

 private:
  // ln(1 + b d) and 1 / (1 + b d). With u = 1 + b d rounded, the logarithm is ln u + (1 + b d - u)
  // / u.
  template <class V>
  struct Grown {
    V logarithm, inverse;
  };
  template <class V>
  [[gnu::always_inline]] static Grown<V> grown_by(V rate, V d) noexcept {
    const V one = V::set(1), u = fma(rate, d, one), inverse = div(one, u);
    return {fma(fma(rate, d, sub(one, u)), inverse, log(u)), inverse};
  }

  // Calls visit(at, ln(1 + b d), q).
  template <class V, class Begin, class Pairs, class End>
  [[gnu::always_inline]] void visit(const Tile<typename V::Element>& t, const Begin& begin,
                                    const Pairs& pairs, const End& end) const noexcept {
    const V rate = V::set(number_of_head(rates, *t.head));
    for_each_of_distance<2, V>(
        t, anchor,
        [&](V d) {
          const Grown<V> grown = grown_by(rate, d);
          return OfDistances<V, 2>{{grown.logarithm, mul(d, grown.inverse)}};
        },
        begin, [&](int64_t at, const OfDistances<V, 2>& d) { pairs(at, d.of[0], d.of[1]); }, end);
  }
};

}  // namespace rapt

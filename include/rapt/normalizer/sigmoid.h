#pragma once
// Sigmoid attention: every weight is a function of its own score only.
//
//   weight_j = 1 / (1 + e^-(s_j + b))
//
// The default of b is -ln n, n the number of keys of the sequence, masked ones included. A row of
// scores near 0 then has weights that sum to about 1, as with softmax. If b is given, it is the
// same for any length, and a row does not depend on keys that it does not attend to.
//
// The keys of a row share nothing: there is no statistic (it is 0), and results over disjoint keys
// are added. Gradient: dS = p (1 - p) dP.
//
// Source: Ramapuram et al. 2024, arXiv:2409.04431, equation 3 and section 3.
#include "rapt/normalizer/normalizer.h"

namespace rapt {

struct Sigmoid {
  double bias = kNotGiven;  // b

  static const Declaration kDeclaration;
  static constexpr Statistic kStatistic = Statistic::none;
  static constexpr bool kMergeable = false;
  static constexpr bool kTakesLog2 = true;
  static constexpr bool kEntropy = false;  // the weights are no distribution
  static constexpr int kStateRows = 0;

  template <class V>
  void begin(Tile<typename V::Element>&) const noexcept {}

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    weights<V>(t);
  }

  // Outputs over disjoint keys are added.
  template <class V>
  void merge(Tile<typename V::Element>& total, const Tile<typename V::Element>&,
             typename V::Element* total_factor, typename V::Element* part_factor) const noexcept {
    for (int64_t x = 0; x < total.queries; x += V::kLanes) {
      store(total_factor + x, V::set(1));
      store(part_factor + x, V::set(1));
    }
  }

  template <class V>
  void finish(Tile<typename V::Element>& t, Finish<typename V::Element> out) const noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      store(out.inverse + x, V::set(1));
      if (out.statistic) store(out.statistic + x, V::set(0));
    }
  }

  template <class V>
  void weights(Tile<typename V::Element>& t) const noexcept {
    const V slope = V::set(t.log2_units ? -1 : -kLog2E), shift = V::set(-kLog2E * bias_of(t));
    typename V::Element* const scores = t.scores;
    const int64_t count = t.keys * t.queries;
    for (int64_t at = 0; at < count; at += V::kLanes) {
      const V power = power_of(V::load(scores + at), slope, shift);
      store(scores + at, div(power, add(V::set(1), power)));
    }
  }

  template <class V>
  void backward(Tile<typename V::Element>& t, typename V::Element* d_weights,
                const typename V::Element* statistic, const typename V::Element*) const noexcept {
    for_each_weight<V>(t, statistic, [&](int64_t at, V, V slope) {
      store(d_weights + at, mul(slope, V::load(d_weights + at)));
    });
  }

  // P' = p (1 - p) S'.
  template <class V>
  void tangent(Tile<typename V::Element>& t, typename V::Element* tangents,
               const typename V::Element* statistic) const noexcept {
    for_each_weight<V>(t, statistic, [&](int64_t at, V, V slope) {
      store(tangents + at, mul(slope, V::load(tangents + at)));
    });
  }

  // dS' = p (1 - p) ((1 - 2 p) S' dP + dP').
  template <class V>
  void backward_tangent(Tile<typename V::Element>& t,
                        const SecondTile<typename V::Element>& second) const noexcept {
    const SecondTile<typename V::Element> s = second;
    for_each_weight<V>(t, s.statistic, [&](int64_t at, V weight, V slope) {
      const V moves = V::load(s.tangents + at), d_weight = V::load(s.d_weights + at);
      const V bend = mul(fma(V::set(-2), weight, V::set(1)), moves);
      store(s.tangents + at, mul(slope, moves));
      store(s.d_weights + at, mul(slope, d_weight));
      store(s.d_weights_tangents + at,
            mul(slope, fma(bend, d_weight, V::load(s.d_weights_tangents + at))));
    });
  }

 private:
  static constexpr double kLog2E = 1.4426950408889634074;

  template <class E>
  [[gnu::always_inline]] double bias_of(const Tile<E>& t) const noexcept {
    return bias == bias ? bias : -__builtin_log(static_cast<double>(t.head->k_len));
  }

  // w = e^x for x = s + b, clamped to the largest power of 2 in range; `slope` and `shift` make -x
  // log2(e). A weight is w / (1 + w). The form 1 / (1 + e^-x) with a clamped power would not be 0
  // for the score -inf of a masked-out pair.
  template <class V>
  static V power_of(V score, V slope, V shift) noexcept {
    constexpr double kLargestExponent = sizeof(typename V::Element) == 4 ? 127 : 1023;
    const V below = max(V::set(-kLargestExponent), fma(score, slope, shift));
    return exp2(sub(V::set(0), below));
  }

  // Turns scores into weights, and calls visit(index in the tile, weights, p (1 - p)). 1 - p is
  // computed as 1 / (1 + w), which keeps all digits where a weight is near 1. A lane whose
  // statistic is -inf has no query.
  template <class V, class Visit>
  void for_each_weight(Tile<typename V::Element>& t, const typename V::Element* statistic,
                       const Visit& visit) const noexcept {
    const V slope = V::set(t.log2_units ? -1 : -kLog2E), shift = V::set(-kLog2E * bias_of(t));
    const int64_t keys = t.keys, step = t.queries;
    typename V::Element* const scores = t.scores;
    for (int64_t x = 0; x < step; x += V::kLanes) {
      const auto none = equal(V::load(statistic + x), V::set(-__builtin_inf()));
      for (int64_t at = x; at < keys * step; at += step) {
        const V power = power_of(V::load(scores + at), slope, shift);
        const V rest = div(V::set(1), add(V::set(1), power));
        const V weight = select(none, V::set(0), mul(power, rest));
        store(scores + at, weight);
        visit(at, weight, mul(weight, rest));
      }
    }
  }
};

}  // namespace rapt

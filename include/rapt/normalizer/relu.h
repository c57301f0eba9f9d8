#pragma once
// ReLU-based attention: a weight is exactly 0 if its score is not above 0.
//
//   weight_j = max(0, s_j)^power / divisor
//
// The default divisor is n, the number of keys of the sequence, masked ones included. If a divisor
// is given, it is the same for any length, and a row does not depend on keys that it does not
// attend to. Weights do not sum to 1. There is no statistic (it is 0); results over disjoint keys
// are added. If all weights of a tile are 0, its values are not read.
//
// Gradient: dS = power max(0, s)^(power - 1) / divisor dP, 0 at s = 0.
//
// Source: Wortsman et al. 2023, arXiv:2309.08586 (power 1, "ReLU / seqlen"); Hua et al. 2022,
// arXiv:2202.10447, section 3.2 (power 2).
#include "rapt/normalizer/normalizer.h"

namespace rapt {

struct Relu {
  int64_t power = 1;  // 1 or 2
  double divisor = kNotGiven;

  static const Declaration kDeclaration;
  static constexpr Statistic kStatistic = Statistic::none;
  static constexpr bool kMergeable = false;
  static constexpr bool kTakesLog2 = false;
  static constexpr bool kEntropy = false;  // the weights are no distribution
  static constexpr int kStateRows = 0;

  template <class V>
  void begin(Tile<typename V::Element>&) const noexcept {}

  // finish() applies the divisor.
  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    const V sum = power == 1 ? powers_in<1, V>(t, 1) : powers_in<2, V>(t, 1);
    t.zero = !any(not_at_most(sum, V::set(0)));
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
      store(out.inverse + x, V::set(1 / divisor_of(t)));
      if (out.statistic) store(out.statistic + x, V::set(0));
    }
  }

  template <class V>
  void weights(Tile<typename V::Element>& t) const noexcept {
    power == 1 ? powers_in<1, V>(t, 1 / divisor_of(t)) : powers_in<2, V>(t, 1 / divisor_of(t));
  }

  template <class V>
  void backward(Tile<typename V::Element>& t, typename V::Element* d_weights,
                const typename V::Element* statistic, const typename V::Element*) const noexcept {
    for_each_weight<V>(t, statistic, [&](int64_t at, V slope, V) {
      store(d_weights + at, mul(slope, V::load(d_weights + at)));
    });
  }

  template <class V>
  void tangent(Tile<typename V::Element>& t, typename V::Element* tangents,
               const typename V::Element* statistic) const noexcept {
    for_each_weight<V>(t, statistic, [&](int64_t at, V slope, V) {
      store(tangents + at, mul(slope, V::load(tangents + at)));
    });
  }

  // With the weight's derivatives w' and w'': dS' = w'' S' dP + w' dP'.
  template <class V>
  void backward_tangent(Tile<typename V::Element>& t,
                        const SecondTile<typename V::Element>& second) const noexcept {
    const SecondTile<typename V::Element> s = second;
    for_each_weight<V>(t, s.statistic, [&](int64_t at, V slope, V bend) {
      const V moves = V::load(s.tangents + at), d_weight = V::load(s.d_weights + at);
      store(s.tangents + at, mul(slope, moves));
      store(s.d_weights + at, mul(slope, d_weight));
      store(s.d_weights_tangents + at,
            fma(mul(bend, moves), d_weight, mul(slope, V::load(s.d_weights_tangents + at))));
    });
  }

 private:
  template <class E>
  [[gnu::always_inline]] double divisor_of(const Tile<E>& t) const noexcept {
    return divisor == divisor ? divisor : static_cast<double>(t.head->k_len);
  }

  // Scores become factor max(0, s)^kPower; a NaN stays NaN. Returns a vector of sums that are all 0
  // only if all weights are 0.
  template <int kPower, class V>
  static V powers_in(Tile<typename V::Element>& t, double factor) noexcept {
    const V zero = V::set(0), factor_v = V::set(factor);
    V sum = zero;
    typename V::Element* const scores = t.scores;
    const int64_t count = t.keys * t.queries;
    for (int64_t at = 0; at < count; at += V::kLanes) {
      const V score = V::load(scores + at);
      V part = select(not_at_most(score, zero), score, zero);
      sum = add(sum, part);
      if constexpr (kPower == 2) part = mul(part, part);
      store(scores + at, mul(factor_v, part));
    }
    return sum;
  }

  // Turns scores into weights, and calls visit(index in the tile, first derivative of the weights,
  // second derivative). A lane whose statistic is -inf has no query.
  template <class V, class Visit>
  void for_each_weight(Tile<typename V::Element>& t, const typename V::Element* statistic,
                       const Visit& visit) const noexcept {
    const V zero = V::set(0), factor = V::set(1 / divisor_of(t)), twice = V::set(2 / divisor_of(t));
    const bool squared = power == 2;
    const int64_t keys = t.keys, step = t.queries;
    typename V::Element* const scores = t.scores;
    for (int64_t x = 0; x < step; x += V::kLanes) {
      const auto none = equal(V::load(statistic + x), V::set(-__builtin_inf()));
      for (int64_t at = x; at < keys * step; at += step) {
        const V score = select(none, zero, V::load(scores + at));
        const auto counts = not_at_most(score, zero);
        const V part = select(counts, score, zero);
        const V step_of = select(counts, squared ? twice : factor, zero);
        store(scores + at, mul(factor, squared ? mul(part, part) : part));
        visit(at, squared ? mul(twice, part) : step_of, squared ? step_of : zero);
      }
    }
  }
};

}  // namespace rapt

#pragma once
// Softpick, a rectified softmax: keys with a score below 0 get no weight, but take part in the sum.
//
//   weight_j = max(0, e^s_j - 1) / S      S = sum_j' |e^s_j' - 1|      statistic = ln S
//
// A query may attend to nothing, and no key is a sink that collects the weight which nobody wants:
// weights sum to at most 1. Where all scores are 0, or there is no key, the weights are 0 and the
// statistic is -inf. The paper's implementation adds 1e-8 to S for such rows.
//
// As for softmax (online_softmax.h), a row is processed block by block with a maximum m, which
// begins at 0: e^(s - m) - e^-m neither overflows nor, for equal scores, differs.
//
// Gradients, with E_j = e^s_j / S and delta = sum_j P_j dP_j - dstatistic (a score counts as 0 if
// e^s rounds to 1):
//
//   dS_j = E_j (dP_j - delta) if s_j > 0,  E_j delta if s_j < 0,  0 if s_j = 0
//
// Source: Zuhri, Fuadi & Aji 2025, arXiv:2504.20966.
#include "rapt/normalizer/normalizer.h"

namespace rapt {

struct Softpick {
  static const Declaration kDeclaration;
  static constexpr Statistic kStatistic = Statistic::lse;
  static constexpr bool kMergeable = true;
  static constexpr bool kTakesLog2 = false;
  static constexpr bool kEntropy = false;  // the weights do not sum to 1
  static constexpr bool kSharesWithoutWeight = true;
  static constexpr int kStateRows = 2;  // m; sum_j |e^(s_j - m) - e^-m|

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    for (int64_t x = 0; x < 2 * t.queries; x += V::kLanes) store(t.state + x, V::set(0));
  }

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    const int64_t keys = t.keys, step = t.queries;
    for (int64_t x = 0; x < step; x += V::kLanes) {
      const V old_max = V::load(t.state + x), block_max = V::load(t.block_max + x);
      V sum = V::load(t.state + step + x), factor = V::set(1), most = old_max;
      // "Not at most" instead of "above": a NaN must count as growth and so reach the state.
      const auto grew = not_at_most(block_max, old_max);
      if (any(grew)) {
        most = select(grew, max(old_max, block_max), old_max);
        factor = select(grew, power(sub(old_max, most)), factor);
        sum = mul(sum, factor);
        store(t.state + x, most);
        t.rescale = true;
      }
      store(t.factor + x, factor);
      typename V::Element* s = t.scores + x;
      const V one = power(sub(V::set(0), most));
      for (int64_t j = 0; j < keys; ++j, s += step) {
        const V score = V::load(s), difference = sub(power(sub(score, most)), one);
        sum = add(sum, select(no_key(score), V::set(0), abs(difference)));
        store(s, positive(difference));
      }
      store(t.state + step + x, sum);
    }
  }

  // As for softmax. A part without keys has m = 0 and a sum of 0, and m of the total is at least 0.
  template <class V>
  void merge(Tile<typename V::Element>& total, const Tile<typename V::Element>& part,
             typename V::Element* total_factor, typename V::Element* part_factor) const noexcept {
    const int64_t step = total.queries;
    for (int64_t x = 0; x < step; x += V::kLanes) {
      const V a = V::load(total.state + x), b = V::load(part.state + x), most = max(a, b);
      const V one = V::set(1);
      const V f = select(equal(a, most), one, power(sub(a, most)));
      const V g = select(equal(b, most), one, power(sub(b, most)));
      store(total.state + x, most);
      store(total.state + step + x,
            add(mul(V::load(total.state + step + x), f), mul(V::load(part.state + step + x), g)));
      store(total_factor + x, f);
      store(part_factor + x, g);
    }
  }

  template <class V>
  void finish(Tile<typename V::Element>& t, Finish<typename V::Element> out) const noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      const V sum = V::load(t.state + t.queries + x);
      store(out.inverse + x, inverse_of(sum));
      if (out.statistic) store(out.statistic + x, add(V::load(t.state + x), log(sum)));
    }
  }

  template <class V>
  void weights(Tile<typename V::Element>& t) const noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      const V most = V::load(t.state + x), one = power(sub(V::set(0), most));
      const V inverse = inverse_of(V::load(t.state + t.queries + x));
      for (int64_t j = 0; j < t.keys; ++j) {
        typename V::Element* const s = t.scores + j * t.queries + x;
        store(s, mul(inverse, positive(sub(power(sub(V::load(s), most)), one))));
      }
    }
  }

  template <class V>
  void backward(Tile<typename V::Element>& t, typename V::Element* d_weights,
                const typename V::Element* statistic,
                const typename V::Element* delta) const noexcept {
    for_each_share<V>(t, statistic, [&](int64_t at, int64_t x, V share, V difference) {
      const V of_row = V::load(delta + x);
      store(d_weights + at, by_sign(difference, mul(share, sub(V::load(d_weights + at), of_row)),
                                    mul(share, of_row)));
    });
  }

  // P + P lse' = E S' above 0. Keys below 0 take part in lse' alone, with -E S'.
  template <class V>
  void tangent(Tile<typename V::Element>& t, typename V::Element* tangents,
               const typename V::Element* statistic) const noexcept {
    for_each_share<V>(t, statistic, [&](int64_t at, int64_t, V share, V difference) {
      const V moved = mul(share, V::load(tangents + at));
      store(tangents + at, by_sign(difference, moved, sub(V::set(0), moved)));
    });
  }

  // E' = E (S' - lse'), and P' = E S' - P lse' above 0; the rest by the product rule.
  template <class V>
  void backward_tangent(Tile<typename V::Element>& t,
                        const SecondTile<typename V::Element>& second) const noexcept {
    const SecondTile<typename V::Element> s = second;
    for_each_share<V>(t, s.statistic, [&](int64_t at, int64_t x, V share, V difference) {
      const V moves = V::load(s.tangents + at), of_row = V::load(s.statistic_tangent + x);
      const V delta = V::load(s.delta + x), delta_tangent = V::load(s.delta_tangent + x);
      const V d_weight = sub(V::load(s.d_weights + at), delta);
      const V grows = mul(share, sub(moves, of_row)), zero = V::set(0);
      const V weight_moves = sub(mul(share, moves), mul(V::load(t.scores + at), of_row));
      const V above =
          fma(grows, d_weight, mul(share, sub(V::load(s.d_weights_tangents + at), delta_tangent)));
      store(s.tangents + at, by_sign(difference, weight_moves, zero));
      store(s.d_weights + at, by_sign(difference, mul(share, d_weight), mul(share, delta)));
      store(s.d_weights_tangents + at,
            by_sign(difference, above, fma(grows, delta, mul(share, delta_tangent))));
    });
  }

 private:
  // e^x
  template <class V>
  static V power(V x) noexcept {
    return exp2(mul(x, V::set(1.4426950408889634074)));
  }
  template <class V>
  static auto no_key(V score) noexcept {
    return equal(score, V::set(-__builtin_inf()));
  }
  // max(0, x); a NaN stays NaN.
  template <class V>
  static V positive(V x) noexcept {
    return select(not_at_most(x, V::set(0)), x, V::set(0));
  }
  template <class V>
  static V inverse_of(V sum) noexcept {
    return select(equal(sum, V::set(0)), V::set(0), div(V::set(1), sum));
  }
  // `above` for a difference above 0 or a NaN, `below` for one below 0, else 0, which a NaN in the
  // row makes NaN.
  template <class V>
  static V by_sign(V difference, V above, V below) noexcept {
    const V zero = V::set(0);
    return select(not_at_most(difference, zero), above,
                  select(equal(difference, zero), mul(zero, below), below));
  }

  // Turns scores into weights, and calls visit(index in the tile, first query, E, the sign of the
  // score) for one vector after the other. E of a row without weights is 0. With c = max(0, ln S),
  // P = (e^(s - c) - e^-c) e^(c - ln S): where S is small, e^(s - ln S) - e^-ln S would be the
  // difference of two large numbers.
  template <class V, class Visit>
  static void for_each_share(Tile<typename V::Element>& t, const typename V::Element* statistic,
                             const Visit& visit) noexcept {
    const int64_t keys = t.keys, step = t.queries;
    const V zero = V::set(0);
    typename V::Element* const scores = t.scores;
    for (int64_t x = 0; x < step; x += V::kLanes) {
      const V lse = V::load(statistic + x);
      const auto none = no_key(lse);
      const V shift = positive(lse), one = power(sub(zero, shift));
      const V factor = select(none, zero, power(sub(shift, lse)));
      for (int64_t at = x; at < keys * step; at += step) {
        const V score = select(none, zero, V::load(scores + at)), part = power(sub(score, shift));
        const V difference = sub(part, one);
        store(scores + at, mul(factor, positive(difference)));
        visit(at, x, mul(factor, part), difference);
      }
    }
  }
};

}  // namespace rapt

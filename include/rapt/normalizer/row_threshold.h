#pragma once
// The arithmetic of the normalisers whose weights are exactly 0 below a threshold of the row:
//
//   weight_j = [(alpha - 1) s_j - tau]_+^(1 / (alpha - 1))     with tau such that they sum to 1
//
// They differ in alpha, which is in (1, 2], and is one number for all heads or one per head. The
// statistic is tau, -inf for a row without keys.
//
// One pass over the scores suffices, because two lower bounds of tau are known early. With m the
// largest score of a row, tau >= (alpha - 1) m - 1, so scores at or below m - 1 / (alpha - 1) get
// no weight, whatever the other scores are. And the tau of the keys so far is a lower bound,
// because more keys only raise it. collect() keeps the scores above the bound. When a list has
// grown long, collect() computes the tau of its scores and drops scores below it. At the end tau is
// computed from the few scores that are left. Scores are stored relative to m, so that large scores
// lose no digits.
//
// tau is the root of h(t) = (sum_j [x_j - t]_+^q)^(1/q) - 1, q = 1 / (alpha - 1), x = (alpha - 1)
// (s - m). h is a norm, so it is convex and falling, and Newton steps from below never pass the
// root. Equal scores need one step. The result is the tau of the definition by sorting.
//
// Gradients: dS = u (dP - delta) with u_j = [x_j - t]_+^(q - 1) and delta = sum_j u_j dP_j / sum_j
// u_j; and d tau / d s_j = (alpha - 1) u_j / sum u. A pair of weight 0 contributes nothing, even if
// its value is not finite.
//
// The gradient of alpha (Correia et al. 2019, proposition 1), with d_j = x_j - t:
//
//   d_alpha = sum_j c_j (dP_j - delta) + d_tau (tau + 1) / (alpha - 1)
//   c_j = u_j (d_j - 1 - d_j ln d_j) / (alpha - 1)^2
//
// The two terms of the paper, (p - u / sum u) / (alpha - 1)^2 and -p ln p / (alpha - 1), nearly
// cancel if alpha is near 1. But sum u (dP - delta) = -(alpha - 1) d_tau for any p, so any multiple
// of u may be subtracted from them. c is their sum with u in place of u / sum u: near d = 1 it is u
// (ln p)^2 / 2, and as exact as ln d.
//
// Source: Martins & Astudillo 2016, arXiv:1602.02068; Peters, Niculae & Martins 2019,
// arXiv:1905.05702; gradients as in Goncalves et al. 2025 (AdaSplash), arXiv:2502.12082; that of
// alpha: Correia, Niculae & Martins 2019, arXiv:1909.00015.
#include "rapt/normalizer/candidate_rows.h"
#include "rapt/normalizer/weighted_pairs.h"

namespace rapt {

// The functions of d = x - tau >= 0 for one alpha, with q = 1 / (alpha - 1): weight d^q, and slope
// d^(q - 1), 0 at d = 0. step() is Newton's step (f - f^(1 - 1/q)) / s for the sums f of the
// weights and s of the slopes of the row.
template <class V>
struct LinearWeights {  // alpha = 2
  static V weight(V d) noexcept { return d; }
  static V slope(V d) noexcept {  // a NaN stays NaN
    return select(not_at_most(d, V::set(0)), select(equal(d, d), V::set(1), d), V::set(0));
  }
  static double step(double f, double s) noexcept { return (f - 1) / s; }
};
template <class V>
struct SquareWeights {  // alpha = 1.5
  static V weight(V d) noexcept { return mul(d, d); }
  static V slope(V d) noexcept { return d; }
  static double step(double f, double s) noexcept { return (f - __builtin_sqrt(f)) / s; }
};
template <class V>
struct WholePowerWeights {  // alpha = 1 + 1 / q with a whole q above 2
  int q;
  V slope(V d) const noexcept {
    V power = mul(d, d);
    for (int n = 3; n < q; ++n) power = mul(power, d);
    return power;
  }
  V weight(V d) const noexcept { return mul(slope(d), d); }
  double step(double f, double s) const noexcept { return (f - __builtin_pow(f, 1 - 1.0 / q)) / s; }
};
template <class V>
struct PowerWeights {  // any other alpha = 1 + 1 / q
  double q;
  static constexpr double kLog2E = 1.4426950408889634074;
  V weight(V d) const noexcept { return exp2(mul(log(d), V::set(q * kLog2E))); }
  V slope(V d) const noexcept { return exp2(mul(log(d), V::set((q - 1) * kLog2E))); }
  double step(double f, double s) const noexcept { return (f - __builtin_pow(f, 1 - 1 / q)) / s; }
};

// N has alpha_of<V>(head), and power<V>(head, visit), which calls visit(one of the above structs).
template <class N>
struct RowThreshold : CandidateRows, WeightedPairs {
  static constexpr Statistic kStatistic = Statistic::threshold;
  static constexpr bool kMergeable = false;  // tau of the whole does not follow from tau of parts
  static constexpr bool kTakesLog2 = false;
  static constexpr bool kEntropy = false;
  // Per query: m; the score at or below which there is no weight; tau - (alpha - 1) m; the factor
  // that makes the weights sum to 1.
  enum State { kMax, kBound, kThreshold, kInverse, kStateRows };

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    constexpr double kNone = -__builtin_inf();
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      store(row<V>(t, kMax) + x, V::set(kNone));
      store(row<V>(t, kBound) + x, V::set(kNone));
      store(row<V>(t, kThreshold) + x, V::set(0));
      store(row<V>(t, kInverse) + x, V::set(0));
    }
    empty_lists<V>(t);
  }

  template <class V>
  void collect(Tile<typename V::Element>& t) const noexcept {
    using E = typename V::Element;
    const V width = V::set(1 / steepness<V>(t)), guard = V::set(kGuard<E>);
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      // max() may drop a NaN among the maxima, but append() keeps the NaN score itself.
      const V largest = max(V::load(t.block_max + x), V::load(row<V>(t, kMax) + x));
      store(row<V>(t, kMax) + x, largest);
      const V bound = sub(sub(largest, width), mul(abs(largest), guard));
      store(row<V>(t, kBound) + x, max(bound, V::load(row<V>(t, kBound) + x)));
    }
    int32_t before[kMostQueries];
    for (int64_t i = 0; i < t.queries; ++i) before[i] = t.kept.counts[i];
    append<V>(t, row<V>(t, kBound));
    // Prune only rows to which this block appended scores. Whether the tile computes the block for
    // the sake of other rows must not change the order of a row's sums.
    for (uint64_t left = t.kept.open; left; left &= left - 1)
      if (const int64_t i = __builtin_ctzll(left);
          t.kept.counts[i] != before[i] && is_full<V>(t, i))
        tighten<V>(t, i);
  }

  template <class V>
  int64_t settle(Tile<typename V::Element>& t, int64_t i) const noexcept {
    using E = typename V::Element;
    E* const scores = t.kept.scores + i * t.kept.stride;
    int32_t* const keys = t.kept.keys + i * t.kept.stride;
    const int64_t count = t.kept.counts[i];
    const E largest = row<V>(t, kMax)[i];
    E& threshold = row<V>(t, kThreshold)[i];
    E& inverse = row<V>(t, kInverse)[i];
    threshold = inverse = static_cast<E>(__builtin_nan(""));
    if (!(largest - largest == 0)) return 0;  // no score, or an infinite or NaN maximum
    int64_t left = 0;
    self<V>().template power<V>(*t.head, [&](const auto& power) {
      threshold = root<V>(t, i, power, kMostSteps);
      if (threshold != threshold) return;  // a NaN among the scores
      const V top = V::splat(largest), tau = V::splat(threshold), steep = V::set(steepness<V>(t));
      V sum = V::set(0);
      for_each_part<V>(count, [&](int64_t begin, int64_t end) {
        V of_part = V::set(0);
        for (int64_t c = begin; c < end; c += V::kLanes) {
          const V weight = power.weight(above(V::load(scores + c), top, steep, tau));
          of_part = add(of_part, weight);
          left += compress(bits_of(not_at_most(weight, V::set(0))) & lanes_before<V>(c, count),
                           weight, keys + c, scores + left, keys + left);
        }
        sum = add(sum, of_part);
      });
      inverse = 1 / total(sum);
    });
    return left;
  }

  template <class V>
  void finish(Tile<typename V::Element>& t, Finish<typename V::Element> out) const noexcept {
    const V steep = V::set(steepness<V>(t)), none = V::set(-__builtin_inf());
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      store(out.inverse + x, V::load(row<V>(t, kInverse) + x));
      if (!out.statistic) continue;
      const V largest = V::load(row<V>(t, kMax) + x);
      store(out.statistic + x, select(equal(largest, none), none,
                                      fma(largest, steep, V::load(row<V>(t, kThreshold) + x))));
    }
  }

  template <class V>
  void weights(Tile<typename V::Element>& t) const noexcept {
    const V steep = V::set(steepness<V>(t));
    const int64_t keys = t.keys, step = t.queries;
    self<V>().template power<V>(*t.head, [&](const auto& power) {
      for (int64_t x = 0; x < step; x += V::kLanes) {
        const V top = V::load(row<V>(t, kMax) + x), tau = V::load(row<V>(t, kThreshold) + x);
        const V inverse = V::load(row<V>(t, kInverse) + x);
        typename V::Element* s = t.scores + x;
        for (int64_t j = 0; j < keys; ++j, s += step)
          store(s, mul(inverse, power.weight(above(V::load(s), top, steep, tau))));
      }
    });
  }

  template <class V>
  void backward(Tile<typename V::Element>& t, typename V::Element* d_weights,
                const typename V::Element* statistic,
                const typename V::Element* delta) const noexcept {
    typename V::Element* const scores = t.scores;
    for_each_slope<V>(t, statistic, [&](int64_t at, int64_t x, V, V weight, V slope) {
      const V change = sub(V::load(d_weights + at), V::load(delta + x));
      store(scores + at, weight);
      store(d_weights + at, product(slope, change));
    });
  }

  template <class V>
  void add_slopes(Tile<typename V::Element>& t, const typename V::Element* d_weights,
                  const typename V::Element* statistic, bool numbers,
                  typename V::Element* sums) const noexcept {
    using E = typename V::Element;
    const int64_t queries = t.queries;
    const V inverse_square = inverse_square_of_steepness<V>(t);
    const auto add_to = [](E* first, E* second, V factor, V d_weight) {
      store(first, add(V::load(first), factor));
      store(second, add(V::load(second), product(factor, d_weight)));
    };
    for_each_slope<V>(t, statistic, [&](int64_t at, int64_t x, V d, V, V slope) {
      E* const sum = sums + x;
      const V d_weight = V::load(d_weights + at);
      add_to(sum, sum + queries, slope, d_weight);
      if (numbers)
        add_to(sum + 2 * queries, sum + 3 * queries, by_alpha(slope, d, inverse_square), d_weight);
    });
  }

  // The sum of u (dP - delta) must be -(alpha - 1) d_tau, with d_tau the gradient of the statistic.
  template <class V>
  void delta(const Tile<typename V::Element>& t, const typename V::Element* sums,
             const typename V::Element* statistic, const typename V::Element* d_statistic,
             typename V::Element* delta, typename V::Element* number_sums) const noexcept {
    const int64_t queries = t.queries;
    const V none = V::set(-__builtin_inf()), steep = V::set(-steepness<V>(t));
    for (int64_t x = 0; x < queries; x += V::kLanes) {
      const V slopes = V::load(sums + x);
      V moved = V::load(sums + queries + x);
      if (d_statistic) moved = fma(steep, V::load(d_statistic + x), moved);
      const V found = select(equal(slopes, V::set(0)), V::set(0), div(moved, slopes));
      store(delta + x, found);
      if (!number_sums) continue;
      V d_alpha = sub(V::load(sums + 3 * queries + x), mul(found, V::load(sums + 2 * queries + x)));
      if (d_statistic) {
        const V tau = V::load(statistic + x);
        const V of_tau = div(mul(V::load(d_statistic + x), add(tau, V::set(1))), steep);
        d_alpha = sub(d_alpha, select(equal(tau, none), V::set(0), of_tau));
      }
      store(number_sums + x, d_alpha);
    }
  }

  template <class V>
  void bounds(const Tile<typename V::Element>& t, const typename V::Element* statistic,
              const typename V::Element*, typename V::Element* bounds) const noexcept {
    using E = typename V::Element;
    const V steep = V::set(steepness<V>(t)), guard = V::set(kGuard<E>);
    const V endless = V::set(__builtin_inf());
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      if (!statistic) {
        store(bounds + x, V::load(row<V>(t, kBound) + x));
        continue;
      }
      const V tau = shift_of(V::load(statistic + x)), score = div(tau, steep);
      store(bounds + x, select(equal(tau, endless), tau, sub(score, mul(abs(score), guard))));
    }
  }

  template <class V>
  int64_t pairs(const Tile<typename V::Element>& t, const typename V::Element* statistic,
                const typename V::Element*, const uint64_t* bits, int64_t most, bool numbers,
                SparsePair<typename V::Element>* pairs) const noexcept {
    using E = typename V::Element;
    const V steep = V::set(steepness<V>(t)), inverse_square = inverse_square_of_steepness<V>(t);
    const int64_t count = list_pairs<V>(t, bits, most, pairs, [&](V score, int64_t x) {
      return sub(mul(score, steep), shift_of(V::load(statistic + x)));
    });
    self<V>().template power<V>(*t.head, [&](const auto& power) {
      weigh_pairs<V>(pairs, count, [&](V d, E* weight, E* slope, E* number) {
        const V u = power.slope(d);
        store(weight, power.weight(d));
        store(slope, u);
        store(number, numbers ? by_alpha(u, d, inverse_square) : V::set(0));
      });
    });
    return count;
  }

 private:
  // Newton steps. Any number of them gives a lower bound; tau itself rarely needs more than ten.
  static constexpr int kStepsOfBound = 2, kMostSteps = 100;
  // A bound is lowered by a few roundings of the score, so that no dropped score is above tau.
  template <class E>
  static constexpr double kGuard = sizeof(E) == 4 ? 0x1p-21 : 0x1p-50;
  // The search ends when a step moves tau by less than its rounding.
  template <class E>
  static constexpr double kSettled = sizeof(E) == 4 ? 0x1p-22 : 0x1p-51;

  // All functions are templates over V: any other function would be one weak symbol for all
  // instruction sets.
  template <class V>
  const N& self() const noexcept {
    return static_cast<const N&>(*this);
  }
  template <class V>
  double steepness(const Tile<typename V::Element>& t) const noexcept {
    return self<V>().template alpha_of<V>(*t.head) - 1;
  }
  template <class V>
  static typename V::Element* row(const Tile<typename V::Element>& t, State which) noexcept {
    return t.state + which * t.queries;
  }

  // [x - tau]_+ of scores; a NaN stays NaN.
  template <class V>
  static V above(V score, V top, V steep, V tau) noexcept {
    return max(V::set(0), sub(mul(sub(score, top), steep), tau));
  }
  // slope * other, but 0 where the slope is 0, even if `other` is NaN.
  template <class V>
  static V product(V slope, V other) noexcept {
    return select(equal(slope, V::set(0)), V::set(0), mul(slope, other));
  }
  // tau as the number that is subtracted; +inf for a row without keys, so that it has no weight
  // whatever the scores.
  template <class V>
  static V shift_of(V statistic) noexcept {
    return select(equal(statistic, V::set(-__builtin_inf())), V::set(__builtin_inf()), statistic);
  }

  // c of the formulas above, from the slope u and the distance d from the threshold.
  template <class V>
  static V by_alpha(V slope, V d, V inverse_square) noexcept {
    const V rest = sub(sub(d, V::set(1)), mul(d, log(d)));
    return select(equal(slope, V::set(0)), V::set(0), mul(mul(slope, rest), inverse_square));
  }
  template <class V>
  V inverse_square_of_steepness(const Tile<typename V::Element>& t) const noexcept {
    const double steep = steepness<V>(t);
    return V::set(1 / (steep * steep));
  }

  // tau of the candidates of a row, relative to (alpha - 1) m, or after `most` Newton steps a lower
  // bound of it. The padding of the list has no weight.
  template <class V, class P, class E = typename V::Element>
  E root(Tile<E>& t, int64_t i, const P& power, int most) const noexcept {
    const E* const scores = t.kept.scores + i * t.kept.stride;
    const int64_t count = pad<V>(t, i);
    const V top = V::splat(row<V>(t, kMax)[i]), steep = V::set(steepness<V>(t));
    E tau = static_cast<E>(steepness<V>(t)) * (row<V>(t, kBound)[i] - row<V>(t, kMax)[i]);
    if (!(tau > -1)) tau = -1;
    for (int step = 0; step < most; ++step) {
      const V tau_v = V::splat(tau);
      V weights = V::set(0), slopes = V::set(0);
      for_each_part<V>(count, [&](int64_t begin, int64_t end) {
        V some_weights = V::set(0), some_slopes = V::set(0);
        for (int64_t c = begin; c < end; c += V::kLanes) {
          const V d = above(V::load(scores + c), top, steep, tau_v);
          some_weights = add(some_weights, power.weight(d));
          some_slopes = add(some_slopes, power.slope(d));
        }
        weights = add(weights, some_weights);
        slopes = add(slopes, some_slopes);
      });
      const double move =
          power.step(static_cast<double>(total(weights)), static_cast<double>(total(slopes)));
      tau += static_cast<E>(move);
      if (!(move > kSettled<E>)) break;
    }
    return tau;
  }

  // Makes room for the next block: raises the bound of a row and drops candidates below it. Closes
  // the row if even tau leaves most of a list that cannot hold all keys.
  template <class V>
  void tighten(Tile<typename V::Element>& t, int64_t i) const noexcept {
    const int64_t capacity = t.kept.capacity;
    int64_t left = drop_below<V>(t, i, kStepsOfBound);
    if (capacity < t.head->k_len && left > capacity / 2) {
      left = drop_below<V>(t, i, kMostSteps);
      if (left > capacity / 4 * 3) t.kept.open &= ~(uint64_t{1} << i);
    }
    t.kept.enough[i] = static_cast<int32_t>(left < kEnough / 2 ? kEnough : 2 * left);
  }

  // Computes tau of the candidates of query i, or after `steps` Newton steps a lower bound of it.
  // Drops the candidates that then have no weight; returns how many are left. A NaN is kept.
  template <class V>
  int64_t drop_below(Tile<typename V::Element>& t, int64_t i, int steps) const noexcept {
    using E = typename V::Element;
    const E largest = row<V>(t, kMax)[i];
    E& bound = row<V>(t, kBound)[i];
    self<V>().template power<V>(*t.head, [&](const auto& power) {
      const E tau = root<V>(t, i, power, steps);
      const E magnitude = largest < 0 ? -largest : largest;
      const E raised = largest + tau / static_cast<E>(steepness<V>(t)) -
                       (magnitude + 1) * static_cast<E>(kGuard<E>);
      if (raised > bound) bound = raised;
    });
    return keep_above<V>(t, i, bound);
  }

  // Calls visit(index in the tile, first query, distance from the threshold, weight, slope) for one
  // vector of scores after the other.
  template <class V, class Visit>
  void for_each_slope(const Tile<typename V::Element>& t, const typename V::Element* statistic,
                      const Visit& visit) const noexcept {
    const V steep = V::set(steepness<V>(t));
    const int64_t keys = t.keys, step = t.queries;
    const typename V::Element* const scores = t.scores;
    self<V>().template power<V>(*t.head, [&](const auto& power) {
      for (int64_t x = 0; x < step; x += V::kLanes) {
        const V shift = shift_of(V::load(statistic + x));
        for (int64_t at = x; at < keys * step; at += step) {
          const V d = max(V::set(0), sub(mul(V::load(scores + at), steep), shift));
          visit(at, x, d, power.weight(d), power.slope(d));
        }
      }
    });
  }
};

}  // namespace rapt

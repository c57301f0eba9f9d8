#pragma once
// The arithmetic of softmax, one block of keys after the other. The normalisers that use it differ
// in the initial state of a row:
//
//   m' = max(m, max_j s_j)
//   l' = l e^(m - m') + sum_j e^(s_j - m')
//   o' = o e^(m - m') + sum_j e^(s_j - m') v_j
//
// and at the end output = o / l, lse = m + ln l; weight_j = e^(s_j - lse).
// Source: Milakov & Gimelshein 2018, arXiv:1805.02867, algorithm 3; Dao et al. 2022,
// arXiv:2205.14135.
//
// A query may keep its old maximum while the new one is at most `slack` above it. Weights then
// reach e^slack instead of 1, and most blocks need no rescaling. Each query decides for itself, so
// that a row's bits never depend on other rows of the tile.
#include "rapt/normalizer/normalizer.h"

namespace rapt {

struct OnlineSoftmax {
  static constexpr Statistic kStatistic = Statistic::lse;
  static constexpr bool kTakesLog2 = true;
  static constexpr int kStateRows = 2;  // m, in the units of the scores; l

  static constexpr double kLog2E = 1.4426950408889634074;
  static constexpr double kLn2 = 0.69314718055994530942;
  // The slack: how far scores may exceed the maximum before it is raised.
  template <class V>
  static constexpr double kSlack = 0;
  static constexpr double kNoWeight = -200;  // e^-200 and 2^-200: 0 in f32, negligible in f64

  template <class V>
  void finish(Tile<typename V::Element>& t, Finish<typename V::Element> out) const noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes)
      store(out.inverse + x, div(V::set(1), V::load(t.state + t.queries + x)));
    const double unit = t.log2_units ? kLn2 : 1;
    if (out.entropy)
      for (int64_t i = 0; i < t.queries; ++i) {
        const double sum = t.state[t.queries + i];
        out.entropy[i] =
            static_cast<typename V::Element>(__builtin_log(sum) - unit * t.entropy[i] / sum);
      }
    if (!out.statistic) return;
    // A row without keys still has its initial state: m = -inf and l = 0 give -inf.
    for (int64_t x = 0; x < t.queries; x += V::kLanes)
      store(out.statistic + x,
            fma(V::load(t.state + x), V::set(unit), log(V::load(t.state + t.queries + x))));
  }

  template <class V>
  void weights(Tile<typename V::Element>& t) const noexcept {
    t.log2_units ? weights_in<true, V>(t) : weights_in<false, V>(t);
  }

  // m = max(m_a, m_b), l = l_a e^(m_a - m) + l_b e^(m_b - m), and the outputs likewise.
  template <class V>
  void merge(Tile<typename V::Element>& total, const Tile<typename V::Element>& part,
             typename V::Element* total_factor, typename V::Element* part_factor) const noexcept {
    total.log2_units ? merge_in<true, V>(total, part, total_factor, part_factor)
                     : merge_in<false, V>(total, part, total_factor, part_factor);
  }

  // dS = P (dP - delta) (Dao et al. 2022, arXiv:2205.14135, algorithm 4).
  template <class V>
  void backward(Tile<typename V::Element>& t, typename V::Element* d_weights,
                const typename V::Element* statistic,
                const typename V::Element* delta) const noexcept {
    t.log2_units ? backward_in<true, V>(t, d_weights, statistic, delta)
                 : backward_in<false, V>(t, d_weights, statistic, delta);
  }

  // Scores become P, and the tangents S' become P S'.
  template <class V>
  void tangent(Tile<typename V::Element>& t, typename V::Element* tangents,
               const typename V::Element* statistic) const noexcept {
    for_each_weight<V>(t, statistic, [&](int64_t at, int64_t, V weight) {
      store(tangents + at, mul(weight, V::load(tangents + at)));
    });
  }

  // P' = P (S' - lse') and, with dS = P (dP - delta), dS' = dS (S' - lse') + P (dP' - delta').
  template <class V>
  void backward_tangent(Tile<typename V::Element>& t,
                        const SecondTile<typename V::Element>& second) const noexcept {
    const SecondTile<typename V::Element> s = second;
    for_each_weight<V>(t, s.statistic, [&](int64_t at, int64_t x, V weight) {
      const V grows = sub(V::load(s.tangents + at), V::load(s.statistic_tangent + x));
      const V d_score = mul(weight, sub(V::load(s.d_weights + at), V::load(s.delta + x)));
      const V moved = sub(V::load(s.d_weights_tangents + at), V::load(s.delta_tangent + x));
      store(s.tangents + at, mul(weight, grows));
      store(s.d_weights + at, d_score);
      store(s.d_weights_tangents + at, fma(weight, moved, mul(d_score, grows)));
    });
  }

  // A column of a tile (one vector of queries) whose scores become weights.
  template <class V>
  struct Column {
    V shift;  // subtracted from its scores
    V sum;    // of the block's weights so far
  };

  // Opens a column: computes its shift from the largest score of the block, and writes to
  // tile.factor the factor of the sums so far.
  template <bool kLog2Units, class V>
  static Column<V> open_column(Tile<typename V::Element>& t, int64_t x, V block_max,
                               double slack) noexcept {
    typename V::Element* const row_max = t.state;
    typename V::Element* const row_sum = t.state + t.queries;
    const V old_max = V::load(row_max + x);
    // "Not at most" instead of "above": a NaN must count as growth and so reach the state.
    const auto grew =
        not_at_most(sub(block_max, old_max), V::set(kLog2Units ? slack * kLog2E : slack));
    V factor = V::set(1), new_max = old_max;
    if (any(grew)) {
      new_max = select(grew, max(old_max, block_max), old_max);
      factor = select(grew, exponential<kLog2Units>(old_max, shift_of(new_max)), factor);
      store(row_max + x, new_max);
      store(row_sum + x, mul(V::load(row_sum + x), factor));
      t.rescale = true;
    }
    store(t.factor + x, factor);
    return {shift_of(new_max), V::set(0)};
  }
  // The weight of a score of the column. Adds the weight to the sum of the column.
  template <bool kLog2Units, class V>
  static V weigh(V score, Column<V>& column) noexcept {
    const V weight = exponential<kLog2Units>(score, column.shift);
    column.sum = add(column.sum, weight);
    return weight;
  }
  // Adds the column's sum to the state. The sum must show a NaN among the weights, because a
  // pipeline stage, which rounds the weights, may not keep it.
  template <class V>
  static void close_column(Tile<typename V::Element>& t, int64_t x,
                           const Column<V>& column) noexcept {
    typename V::Element* const row_sum = t.state + t.queries;
    store(row_sum + x, add(V::load(row_sum + x), column.sum));
  }

  // A column of a tile in the backward pass.
  template <class V>
  struct GradientColumn {
    V shift;  // subtracted from its scores
    V delta;  // of its queries (rapt/backward.h)
  };
  // The final weight of a score, and its gradient dS = P (dP - delta).
  template <class V>
  struct Gradient {
    V weight;   // P
    V d_score;  // dS
  };

  // The column of queries with this statistic, an lse in natural units, and delta.
  template <bool kLog2Units, class V>
  static GradientColumn<V> open_gradient(V statistic, V delta) noexcept {
    return {shift_of_lse<kLog2Units>(statistic), delta};
  }
  // The final weight of a score of the column, and the gradient of the score.
  template <bool kLog2Units, class V>
  static Gradient<V> go_back(V score, V d_weight, const GradientColumn<V>& column) noexcept {
    const V weight = exponential<kLog2Units>(score, column.shift);
    return {weight, mul(weight, sub(d_weight, column.delta))};
  }

 protected:
  // Initialises rows as if they had keys with this maximum and this sum of e^(score - maximum).
  template <class V>
  static void begin_with(Tile<typename V::Element>& t, double maximum, double sum) noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      store(t.state + x, V::set(maximum));
      store(t.state + t.queries + x, V::set(sum));
      if (t.entropy) store(t.entropy + x, V::set(0));
    }
  }

  // apply() with this slack, kSlack<V>.
  template <class V>
  static void apply_with(Tile<typename V::Element>& t, double slack) noexcept {
    if (t.entropy)
      t.log2_units ? apply_in<true, true, V>(t, slack) : apply_in<false, true, V>(t, slack);
    else
      t.log2_units ? apply_in<true, false, V>(t, slack) : apply_in<false, false, V>(t, slack);
  }

 private:
  // The number that is subtracted from the scores: the maximum, or 0 for a row without keys so far,
  // because -inf - (-inf) would be NaN.
  template <class V>
  static V shift_of(V max) noexcept {
    return select(equal(max, V::set(-__builtin_inf())), V::set(0), max);
  }

  // e^(s - shift). Multiplies by log2 e, unless the scores are in log2 units. The difference is
  // computed before the product: the rounding error of a product of a large score would be larger
  // than any weight.
  template <bool kLog2Units, class V>
  static V exponential(V score, V shift) noexcept {
    if constexpr (kLog2Units)
      return power(sub(score, shift));
    else
      return power(mul(sub(score, shift), V::set(kLog2E)));
  }
  // 2^x. Where products treat denormal weights as 0, denormal results become 0: then no weight and
  // no rescaling factor is denormal.
  template <class V>
  static V power(V x) noexcept {
    if constexpr (requires { V::kNormalWeights; })
      return normal_exp2(x);
    else
      return exp2(x);
  }

  // Turns one column of the tile into weights; adds weight * (score - shift) to `spread`. Copies
  // the extents, because the compiler must assume that a store to the scores changes the tile.
  template <bool kLog2Units, bool kSpread, class V>
  static void weigh_all(const Tile<typename V::Element>& t, int64_t x, Column<V>& column,
                        V& spread) noexcept {
    const int64_t keys = t.keys, step = t.queries;
    typename V::Element* s = t.scores + x;
    Column<V> c = column;
    for (int64_t j = 0; j < keys; ++j, s += step) {
      const V score = V::load(s);
      const V weight = weigh<kLog2Units>(score, c);
      store(s, weight);
      // Clamped, because weight 0 times score -inf of a masked-out key would be NaN.
      if constexpr (kSpread)
        spread = fma(weight, max(V::set(kNoWeight), sub(score, c.shift)), spread);
    }
    column = c;
  }

  // With t = sum_j e^(s_j - m) (s_j - m), the entropy -sum_j p_j ln p_j is ln l - t / l. A new
  // maximum m' makes t' = (t + l (m - m')) e^(m - m'); `factor` is e^(m - m'), `sum` l e^(m - m').
  // A row without keys so far has a spread of 0. Clamped as above: the difference of two large
  // scores may overflow.
  template <class V>
  static V moved_spread(V spread, V factor, V sum, V old_max, V shift) noexcept {
    const V moved = mul(sum, max(V::set(kNoWeight), sub(shift_of(old_max), shift)));
    return select(equal(old_max, V::set(-__builtin_inf())), V::set(0), fma(spread, factor, moved));
  }

  template <bool kLog2Units, bool kEntropyToo, class V>
  static void apply_in(Tile<typename V::Element>& t, double slack) noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      const V old_max = V::load(t.state + x);
      Column<V> column = open_column<kLog2Units>(t, x, V::load(t.block_max + x), slack);
      V spread = V::set(0);
      weigh_all<kLog2Units, kEntropyToo>(t, x, column, spread);
      if constexpr (kEntropyToo) {
        const V sum = V::load(t.state + t.queries + x);  // l e^(m - m')
        store(t.entropy + x, add(moved_spread(V::load(t.entropy + x), V::load(t.factor + x), sum,
                                              old_max, column.shift),
                                 spread));
      }
      close_column(t, x, column);
    }
  }

  // A side whose maximum is that of both keeps its bits: its factor is exactly 1, and the other sum
  // is 0 if it has no key.
  template <bool kLog2Units, class V>
  static void merge_in(Tile<typename V::Element>& total, const Tile<typename V::Element>& part,
                       typename V::Element* total_factor,
                       typename V::Element* part_factor) noexcept {
    const int64_t queries = total.queries;
    for (int64_t x = 0; x < queries; x += V::kLanes) {
      const V a = V::load(total.state + x), b = V::load(part.state + x), both = max(a, b);
      const V shift = shift_of(both), one = V::set(1);
      const V f = select(equal(a, both), one, exponential<kLog2Units>(a, shift));
      const V g = select(equal(b, both), one, exponential<kLog2Units>(b, shift));
      const V sum = mul(V::load(total.state + queries + x), f);
      const V part_sum = mul(V::load(part.state + queries + x), g);
      if (total.entropy)
        store(total.entropy + x,
              add(moved_spread(V::load(total.entropy + x), f, sum, a, shift),
                  moved_spread(V::load(part.entropy + x), g, part_sum, b, shift)));
      store(total.state + x, both);
      store(total.state + queries + x, add(sum, part_sum));
      store(total_factor + x, f);
      store(part_factor + x, g);
    }
  }

  template <bool kLog2Units, class V>
  static void weights_in(Tile<typename V::Element>& t) noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      const V shift = shift_of(V::load(t.state + x));
      const V inverse = div(V::set(1), V::load(t.state + t.queries + x));
      for (int64_t j = 0; j < t.keys; ++j) {
        typename V::Element* s = t.scores + j * t.queries + x;
        store(s, mul(inverse, exponential<kLog2Units>(V::load(s), shift)));
      }
    }
  }

  // The lse as the number that is subtracted from the scores; +inf for a row without keys, so that
  // its weights are e^-inf = 0 whatever the scores.
  template <bool kLog2Units, class V>
  static V shift_of_lse(V lse) noexcept {
    return select(equal(lse, V::set(-__builtin_inf())), V::set(__builtin_inf()),
                  kLog2Units ? mul(lse, V::set(kLog2E)) : lse);
  }

  // Turns scores in natural units into weights, and calls visit(index in the tile, first query,
  // weights) for one vector after the other.
  template <class V, class Visit>
  static void for_each_weight(Tile<typename V::Element>& t, const typename V::Element* statistic,
                              const Visit& visit) noexcept {
    const int64_t keys = t.keys, step = t.queries;
    typename V::Element* const scores = t.scores;
    for (int64_t x = 0; x < step; x += V::kLanes) {
      const V shift = shift_of_lse<false>(V::load(statistic + x));
      for (int64_t at = x; at < keys * step; at += step) {
        const V weight = exponential<false>(V::load(scores + at), shift);
        store(scores + at, weight);
        visit(at, x, weight);
      }
    }
  }

  template <bool kLog2Units, class V>
  static void backward_in(Tile<typename V::Element>& t, typename V::Element* d_weights,
                          const typename V::Element* statistic,
                          const typename V::Element* delta) noexcept {
    const int64_t keys = t.keys, step = t.queries;
    for (int64_t x = 0; x < step; x += V::kLanes) {
      const auto column = open_gradient<kLog2Units>(V::load(statistic + x), V::load(delta + x));
      typename V::Element* s = t.scores + x;
      typename V::Element* d = d_weights + x;
      for (int64_t j = 0; j < keys; ++j, s += step, d += step) {
        const auto back = go_back<kLog2Units>(V::load(s), V::load(d), column);
        store(s, back.weight);
        store(d, back.d_score);
      }
    }
  }
};

}  // namespace rapt

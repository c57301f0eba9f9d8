#pragma once
// Softmax, online: weight_j = e^(s_j - lse), one block of keys after the other.
//   m' = max(m, max_j s_j)   l' = l e^(m - m') + sum_j e^(s_j - m')   o' = o e^(m - m') + sum_j
//   e^(s_j - m') v_j at the end: output = o / l, lse = m + ln l.
// Source: Milakov & Gimelshein 2018, arXiv:1805.02867, algorithm 3; Dao et al. 2022,
// arXiv:2205.14135.
//
// A query keeps its old maximum while the new one is at most kSlack above it (Shah et al. 2024's
// successor FlashAttention-4 does so per tile): weights then reach e^kSlack instead of 1, which
// float32 holds without loss, and most blocks need no rescaling. Decided per query, so that a row's
// bits never depend on its neighbours in the tile.
#include "rapt/normalizer/normalizer.h"

namespace rapt {

struct Softmax {
  static const Declaration kDeclaration;
  static constexpr Statistic kStatistic = Statistic::lse;
  static constexpr bool kMergeable = true;
  static constexpr bool kWholeRow = false;
  static constexpr bool kExtra = false;
  static constexpr bool kTakesLog2 = true;
  static constexpr Cost kCost = Cost::pipeline;
  static constexpr int kStateRows = 2;  // m, in the units of the scores; l
  static constexpr int kCandidates = 0;

  static constexpr double kLog2E = 1.4426950408889634074;
  static constexpr double kLn2 = 0.69314718055994530942;
  static constexpr double kSlack = 8 * kLn2;  // weights reach at most 2^8: far from any overflow

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      store(t.state + x, V::set(-__builtin_inf()));
      store(t.state + t.queries + x, V::set(0));
    }
  }

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    t.rescale = false;
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      const V old_max = V::load(t.state + x);
      const V block_max = V::load(t.block_max + x);
      // "Not at most" instead of "above": a NaN must count as growth and so reach the state.
      const auto grew =
          not_at_most(sub(block_max, old_max), V::set(t.log2_units ? kSlack * kLog2E : kSlack));
      if (any(grew)) {
        const V new_max = select(grew, max(old_max, block_max), old_max);
        const V factor =
            select(grew, exponential<V>(old_max, shift_of<V>(new_max, t), t), V::set(1));
        store(t.factor + x, factor);
        store(t.state + x, new_max);
        store(t.state + t.queries + x, mul(V::load(t.state + t.queries + x), factor));
        t.rescale = true;
      } else {
        store(t.factor + x, V::set(1));
      }
      const V shift = shift_of<V>(V::load(t.state + x), t);
      store(t.state + t.queries + x,
            add(V::load(t.state + t.queries + x), exponentials<V>(t, x, shift)));
    }
  }

  template <class V>
  void finish(Tile<typename V::Element>& t, typename V::Element* inverse,
              typename V::Element* lse) const noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes)
      store(inverse + x, div(V::set(1), V::load(t.state + t.queries + x)));
    if (!lse) return;
    const double unit = t.log2_units ? kLn2 : 1;
    for (int64_t i = 0; i < t.queries; ++i)
      lse[i] = static_cast<typename V::Element>(t.state[i] * unit +
                                                __builtin_log(t.state[t.queries + i]));
  }

  template <class V>
  void weights(Tile<typename V::Element>& t) const noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      const V shift = shift_of<V>(V::load(t.state + x), t);
      const V inverse = div(V::set(1), V::load(t.state + t.queries + x));
      for (int64_t j = 0; j < t.keys; ++j) {
        auto* s = t.scores + j * t.queries + x;
        store(s, mul(inverse, exponential<V>(V::load(s), shift, t)));
      }
    }
  }

 private:
  // What is subtracted in the exponent, in log2 units; 0 for a row that has seen no key, because
  // -inf - (-inf) would be NaN.
  template <class V>
  static V shift_of(V max, const Tile<typename V::Element>& t) noexcept {
    const V finite = select(equal(max, V::set(-__builtin_inf())), V::set(0), max);
    return t.log2_units ? finite : mul(finite, V::set(kLog2E));
  }

  // e^(s - m) = 2^(s log2 e - shift). log2 e enters here, unless the scores contain it already.
  template <class V>
  static V exponential(V score, V shift, const Tile<typename V::Element>& t) noexcept {
    return exp2(t.log2_units ? sub(score, shift)
                             : fma(score, V::set(kLog2E), sub(V::set(0), shift)));
  }

  // Turns one column of the tile into weights and returns their sum.
  template <class V>
  static V exponentials(Tile<typename V::Element>& t, int64_t x, V shift) noexcept {
    V sum = V::set(0);
    if (t.log2_units) {
      for (int64_t j = 0; j < t.keys; ++j) {
        auto* s = t.scores + j * t.queries + x;
        const V weight = exp2(sub(V::load(s), shift));
        store(s, weight);
        sum = add(sum, weight);
      }
    } else {
      const V minus_shift = sub(V::set(0), shift);
      for (int64_t j = 0; j < t.keys; ++j) {
        auto* s = t.scores + j * t.queries + x;
        const V weight = exp2(fma(V::load(s), V::set(kLog2E), minus_shift));
        store(s, weight);
        sum = add(sum, weight);
      }
    }
    return sum;
  }
};

}  // namespace rapt

#pragma once
// Softmax over the k largest scores of each row; all other weights are exactly 0:
//
//   weight_j = e^(s_j - lse) where s_j >= s_(k), else 0        lse = ln sum of e^s_j there
//
// s_(k) is the k-th largest score of the keys that the query attends to; equal scores count
// separately. All keys whose score equals s_(k) have a weight, even if more than k keys then do. So
// the result does not depend on the order of the keys. A row of at most k keys is softmax.
//
// One pass over the scores suffices. The *cut* is the largest number that at least k of the scores
// so far exceed. A score at or below the cut gets no weight, whatever scores follow. The scores
// above the cut are kept in a list (candidate_rows.h), which is pruned whenever it has doubled. At
// the end it holds the row's support. The cut is found by bisection over the bit patterns of
// floating-point numbers: it takes at most as many steps as a number has bits, for any scores, and
// nothing is sorted.
//
// Gradients are those of softmax over the keys that have a weight; this set of keys counts as
// constant. The statistic is the lse, from which the cut does not follow: the backward pass finds
// the cut again, in an additional walk over the scores.
//
// Source: Gupta et al. 2021, arXiv:2106.06899, section 3; Zhao et al. 2019, arXiv:1912.11637,
// equations 5 and 6.
#include "rapt/normalizer/candidate_rows.h"
#include "rapt/normalizer/weighted_pairs.h"

namespace rapt {

struct TopKSoftmax : CandidateRows, WeightedPairs {
  int64_t k = 0;  // at least 1; must be given

  static const Declaration kDeclaration;
  static constexpr Statistic kStatistic = Statistic::lse;
  static constexpr bool kMergeable = false;  // two parts have up to 2 k weights
  static constexpr bool kTakesLog2 = false;
  static constexpr bool kEntropy = false;
  static constexpr int kDeltaRows = 2;  // delta; the cut
  // Per query: the largest score m, the sum of e^(s - m) over the support, the cut.
  enum State { kMax, kSum, kCut, kStateRows };

  TopKSoftmax() = default;
  explicit TopKSoftmax(int64_t most) : k(most) {}

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    const V none = V::set(-__builtin_inf());
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      store(row<V>(t, kMax) + x, none);
      store(row<V>(t, kSum) + x, V::set(0));
      store(row<V>(t, kCut) + x, none);
    }
    constexpr int64_t kMost = 1 << 30;
    empty_lists<V>(t, static_cast<int32_t>(k < kEnough / 2 ? kEnough : k < kMost ? 2 * k : kMost));
  }

  // A list that cannot hold all keys is closed if more than 3/4 of it stays after it is pruned.
  template <class V>
  void collect(Tile<typename V::Element>& t) const noexcept {
    const int64_t capacity = t.kept.capacity;
    for (uint64_t left = t.kept.open; left; left &= left - 1) {
      const int64_t i = __builtin_ctzll(left);
      if (!is_full<V>(t, i)) continue;
      const int64_t count = cut_down<V>(t, i, row<V>(t, kCut)[i]);
      if (capacity < t.head->k_len && count > capacity / 4 * 3) t.kept.open &= ~(uint64_t{1} << i);
      t.kept.enough[i] = static_cast<int32_t>(count < kEnough / 2 ? kEnough : 2 * count);
    }
    append<V>(t, row<V>(t, kCut));
  }

  // Turns the candidates of row i into weights, and drops those below the k-th largest score;
  // returns how many are left.
  template <class V>
  int64_t settle(Tile<typename V::Element>& t, int64_t i) const noexcept {
    using E = typename V::Element;
    cut_down<V>(t, i, row<V>(t, kCut)[i]);
    E* const scores = t.kept.scores + i * t.kept.stride;
    int32_t* const keys = t.kept.keys + i * t.kept.stride;
    const int64_t count = pad<V>(t, i);
    const E largest = largest_of<V>(scores, count);
    const V top = V::splat(largest);
    V sum = V::set(0);
    int64_t left = 0;
    for_each_part<V>(count, [&](int64_t begin, int64_t end) {
      V of_part = V::set(0);
      for (int64_t c = begin; c < end; c += V::kLanes) {
        const V weight = exponential(V::load(scores + c), top);
        of_part = add(of_part, weight);
        left += compress(bits_of(not_at_most(weight, V::set(0))) & lanes_before<V>(c, count),
                         weight, keys + c, scores + left, keys + left);
      }
      sum = add(sum, of_part);
    });
    row<V>(t, kMax)[i] = largest;
    row<V>(t, kSum)[i] = total(sum);
    // Without a score, or if all scores are -inf, no weight is a number.
    if (left == 0) row<V>(t, kCut)[i] = static_cast<E>(__builtin_nan(""));
    return left;
  }

  template <class V>
  void finish(Tile<typename V::Element>& t, Finish<typename V::Element> out) const noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      const V sum = V::load(row<V>(t, kSum) + x);
      store(out.inverse + x, div(V::set(1), sum));
      // A row without keys still has its initial state, which gives -inf.
      if (out.statistic) store(out.statistic + x, add(V::load(row<V>(t, kMax) + x), log(sum)));
    }
  }

  template <class V>
  void weights(Tile<typename V::Element>& t) const noexcept {
    const int64_t keys = t.keys, step = t.queries;
    for (int64_t x = 0; x < step; x += V::kLanes) {
      const V top = V::load(row<V>(t, kMax) + x), cut = V::load(row<V>(t, kCut) + x);
      const V inverse = div(V::set(1), V::load(row<V>(t, kSum) + x));
      typename V::Element* s = t.scores + x;
      for (int64_t j = 0; j < keys; ++j, s += step)
        store(s, mul(inverse, weight_above(V::load(s), cut, top)));
    }
  }

  // Numbers per query that find_cut() keeps, with blocks of `block` keys; 0: a row of at most k
  // keys has no cut.
  template <class V>
  int64_t cut_capacity(int64_t k_len, int64_t block) const noexcept {
    if (k >= k_len) return 0;
    return 2 * k + block < k_len ? 2 * k + block : k_len;
  }

  // Updates the cuts [queries] of the keys so far, which are -inf at first; lists are empty at
  // first. Of scores that equal the k-th largest, only as many are kept as make k.
  template <class V>
  void find_cut(Tile<typename V::Element>& t, typename V::Element* cut) const noexcept {
    using E = typename V::Element;
    for (uint64_t left = t.kept.open; left; left &= left - 1) {
      const int64_t i = __builtin_ctzll(left);
      if (t.kept.counts[i] + t.keys <= t.kept.capacity || cut_down<V>(t, i, cut[i]) <= k) continue;
      const E equal = next_above(cut[i]);
      E* const scores = t.kept.scores + i * t.kept.stride;
      for (int64_t c = keep_above<V>(t, i, equal); c < k; ++c) scores[c] = equal;
      t.kept.counts[i] = static_cast<int32_t>(k);  // drops some if more than k scores are NaN
    }
    append<V>(t, cut);
  }
  // Computes the final cuts after the last block.
  template <class V>
  void settle_cut(Tile<typename V::Element>& t, typename V::Element* cut) const noexcept {
    for (uint64_t left = t.kept.open; left; left &= left - 1) {
      const int64_t i = __builtin_ctzll(left);
      cut_down<V>(t, i, cut[i]);
    }
  }

  // dS = P (dP - delta) for pairs with a weight, else 0.
  template <class V>
  void backward(Tile<typename V::Element>& t, typename V::Element* d_weights,
                const typename V::Element* statistic,
                const typename V::Element* delta) const noexcept {
    const int64_t keys = t.keys, step = t.queries;
    for (int64_t x = 0; x < step; x += V::kLanes) {
      const V lse = shift_of(V::load(statistic + x)), centre = V::load(delta + x);
      const V cut = cut_of(V::load(delta + step + x), lse);
      typename V::Element* s = t.scores + x;
      typename V::Element* d = d_weights + x;
      for (int64_t j = 0; j < keys; ++j, s += step, d += step) {
        const V weight = weight_above(V::load(s), cut, lse);
        const V d_score = mul(weight, sub(V::load(d), centre));
        store(s, weight);
        store(d, select(equal(weight, V::set(0)), V::set(0), d_score));
      }
    }
  }

  template <class V>
  void bounds(const Tile<typename V::Element>& t, const typename V::Element* statistic,
              const typename V::Element* delta, typename V::Element* bounds) const noexcept {
    const V endless = V::set(__builtin_inf());
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      if (!statistic) {
        store(bounds + x, V::load(row<V>(t, kCut) + x));
        continue;
      }
      const V lse = shift_of(V::load(statistic + x));
      const V cut = cut_of(V::load(delta + t.queries + x), lse);
      store(bounds + x, select(equal(lse, endless), lse, cut));
    }
  }

  template <class V>
  int64_t pairs(const Tile<typename V::Element>& t, const typename V::Element* statistic,
                const typename V::Element* delta, const uint64_t* bits, int64_t most, bool,
                SparsePair<typename V::Element>* pairs) const noexcept {
    using E = typename V::Element;
    const E* const cuts = delta + t.queries;
    // Pairs are listed with their weights; a pair whose weight underflows is not listed.
    const int64_t count = list_pairs<V>(t, bits, most, pairs, [&](V score, int64_t x) {
      const V lse = shift_of(V::load(statistic + x));
      return weight_above(score, cut_of(V::load(cuts + x), lse), lse);
    });
    for (int64_t c = 0; c < count; ++c) pairs[c].slope = pairs[c].weight;
    return count;
  }

 private:
  static constexpr double kLog2E = 1.4426950408889634074;

  template <class V>
  static typename V::Element* row(const Tile<typename V::Element>& t, State which) noexcept {
    return t.state + which * t.queries;
  }

  // e^(s - shift). The difference is computed before the product, as in online_softmax.h.
  template <class V>
  static V exponential(V score, V shift) noexcept {
    return exp2(mul(sub(score, shift), V::set(kLog2E)));
  }
  template <class V>
  static V weight_above(V score, V cut, V shift) noexcept {
    return select(not_at_most(score, cut), exponential(score, shift), V::set(0));
  }
  // The lse as the number that is subtracted; +inf for a row without keys, so that it has no weight
  // whatever the scores.
  template <class V>
  static V shift_of(V lse) noexcept {
    return select(equal(lse, V::set(-__builtin_inf())), V::set(__builtin_inf()), lse);
  }

  // The cut of a row; NaN if the lse is NaN. Every score, even -inf, counts as above NaN.
  template <class V>
  static V cut_of(V cut, V lse) noexcept {
    return select(equal(lse, lse), cut, lse);
  }

  // Raises the cut of query i to that of its list, if the list has more than k scores, and drops
  // scores that are not above it; returns how many are left. A NaN is above everything.
  template <class V, class E = typename V::Element>
  int64_t cut_down(Tile<E>& t, int64_t i, E& cut) const noexcept {
    const E* const scores = t.kept.scores + i * t.kept.stride;
    const int64_t count = pad<V>(t, i);
    if (count <= k) return count;
    cut = cut_of_list<V>(scores, count, k, cut);
    return keep_above<V>(t, i, cut);
  }
};

}  // namespace rapt

#pragma once
// Softmax over the k largest scores of each row; all other weights are exactly 0:
//
//   weight_j = e^(s_j - lse) where s_j >= s_(k), else 0        lse = ln sum of e^s_j there
//
// s_(k) is the k-th largest score of the keys that a query sees, equal ones counted each. Keys of
// just that score all have a weight, be they more than k: so the order of the keys decides nothing,
// and two that are equal are treated alike. A row of at most k keys is softmax.
//
// One look at the scores is enough: what is not above the *cut*, the largest number that at least k
// of the scores so far exceed, gets no weight whatever else comes. So a list of what is above it
// (candidate_rows.h) is cut down whenever it has doubled, and at the end has the row's support.
// The cut is found by halving the interval of floating-point numbers that it is in, by their bits:
// any numbers, in as many steps as they have bits at most; nothing is sorted.
//
// Gradients: those of softmax over the keys that have a weight; which these are does not change.
// The statistic is the lse, which says nothing of the cut: the backward pass finds it again, in a
// walk over the scores before the others.
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
  static constexpr bool kMergeable = false;  // the k largest of two parts are up to 2 k
  static constexpr bool kWholeRow = false;
  static constexpr bool kExtra = false;
  static constexpr bool kTakesLog2 = false;
  static constexpr bool kEntropy = false;
  static constexpr Cost kCost = Cost::pass;
  static constexpr int kCandidates = 0;
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

  // A list that cannot hold all keys is closed where equal scores fill it, or k itself.
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

  // Weights of the candidates of row i, those below the k-th dropped; returns how many are left.
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
    // Without a score, or with -inf alone: nothing of it has a weight that is a number.
    if (left == 0) row<V>(t, kCut)[i] = static_cast<E>(__builtin_nan(""));
    return left;
  }

  template <class V>
  void finish(Tile<typename V::Element>& t, Finish<typename V::Element> out) const noexcept {
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      const V sum = V::load(row<V>(t, kSum) + x);
      store(out.inverse + x, div(V::set(1), sum));
      // Without keys it follows from what a row begins with: -inf.
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

  // Numbers per query that find_cut() keeps while blocks of `block` keys go by; 0: a row of at most
  // k keys has no cut.
  template <class V>
  int64_t cut_capacity(int64_t k_len, int64_t block) const noexcept {
    if (k >= k_len) return 0;
    return 2 * k + block < k_len ? 2 * k + block : k_len;
  }

  // The cuts [queries], -inf at first, of the keys so far; lists begin empty. Of scores that equal
  // the k-th largest, as many are kept as k takes.
  template <class V>
  void find_cut(Tile<typename V::Element>& t, typename V::Element* cut) const noexcept {
    using E = typename V::Element;
    for (uint64_t left = t.kept.open; left; left &= left - 1) {
      const int64_t i = __builtin_ctzll(left);
      if (t.kept.counts[i] + t.keys <= t.kept.capacity || cut_down<V>(t, i, cut[i]) <= k) continue;
      const E equal = next_above(cut[i]);
      E* const scores = t.kept.scores + i * t.kept.stride;
      for (int64_t c = keep_above<V>(t, i, equal); c < k; ++c) scores[c] = equal;
      t.kept.counts[i] = static_cast<int32_t>(k);  // fewer than there are, where many are NaN
    }
    append<V>(t, cut);
  }
  // After the last block.
  template <class V>
  void settle_cut(Tile<typename V::Element>& t, typename V::Element* cut) const noexcept {
    for (uint64_t left = t.kept.open; left; left &= left - 1) {
      const int64_t i = __builtin_ctzll(left);
      cut_down<V>(t, i, cut[i]);
    }
  }

  // dS = P (dP - delta), where there is a weight.
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
      V bound = V::load(row<V>(t, kCut) + x);
      if (statistic) {
        const V lse = shift_of(V::load(statistic + x));
        bound = select(equal(lse, endless), lse, cut_of(V::load(delta + t.queries + x), lse));
      }
      store(bounds + x, bound);
    }
  }

  template <class V>
  int64_t pairs(const Tile<typename V::Element>& t, const typename V::Element* statistic,
                const typename V::Element* delta, const uint64_t* bits, int64_t most, bool,
                SparsePair<typename V::Element>* pairs) const noexcept {
    using E = typename V::Element;
    const E* const cuts = delta + t.queries;
    // Listed with their weights: one that underflows is none.
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

  // e^(s - shift). The difference is taken first, as in online_softmax.h.
  template <class V>
  static V exponential(V score, V shift) noexcept {
    return exp2(mul(sub(score, shift), V::set(kLog2E)));
  }
  template <class V>
  static V weight_above(V score, V cut, V shift) noexcept {
    return select(not_at_most(score, cut), exponential(score, shift), V::set(0));
  }
  // The lse as what is subtracted: without a key there is no weight, whatever the score.
  template <class V>
  static V shift_of(V lse) noexcept {
    return select(equal(lse, V::set(-__builtin_inf())), V::set(__builtin_inf()), lse);
  }

  // The cut of a row; of one that is NaN, NaN: everything is above it, also -inf.
  template <class V>
  static V cut_of(V cut, V lse) noexcept {
    return select(equal(lse, lse), cut, lse);
  }

  // Raises the cut of query i to that of its list, if that has more than k, and drops what is not
  // above it; returns how many are left. A NaN is above everything.
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

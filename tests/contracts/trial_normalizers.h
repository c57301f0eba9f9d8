#pragma once
// Three normalisers that test the contracts of DESIGN.md, forward and backward: softmax1 (online),
// sigmoid (no state) and entmax-1.5 (whole rows, with an extra output). Like catalogue entries,
// they are written for a vector type V, with the hooks of rapt/normalizer/normalizer.h and one
// constant:
//
//   kDelta   the x in delta = rowsum(d_output * x): the output, the extra output, or nothing
#include <cmath>

#include "rapt/normalizer/normalizer.h"

namespace rapt::trial {

enum class Delta { output, extra, none };

// weight_j = e^s_j / (1 + sum e^s); statistic log(1 + sum e^s), 0 for a row without keys.
struct Softmax1 {
  static inline const Declaration kDeclaration = {"softmax1", "", "", {}};
  static constexpr Statistic kStatistic = Statistic::lse;
  static constexpr bool kMergeable = false;  // merging would count the 1 once per part
  static constexpr bool kWholeRow = false, kExtra = false, kTakesLog2 = false;
  static constexpr bool kEntropy = false;
  static constexpr Cost kCost = Cost::pipeline;
  static constexpr int kStateRows = 2, kCandidates = 0;
  static constexpr Delta kDelta = Delta::output;

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) t.state[i] = -INFINITY, t.state[t.queries + i] = 0;
  }
  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    using E = typename V::Element;
    t.rescale = true;
    for (int64_t i = 0; i < t.queries; ++i) {
      E &max = t.state[i], &sum = t.state[t.queries + i];
      const E new_max = t.block_max[i] > max ? t.block_max[i] : max;
      const E shift = new_max == -INFINITY ? 0 : new_max;
      t.factor[i] = std::exp(max - shift);
      sum *= t.factor[i];
      max = new_max;
      for (int64_t j = 0; j < t.keys; ++j) {
        E& s = t.scores[j * t.queries + i];
        s = std::exp(s - shift);
        sum += s;
      }
    }
  }
  template <class V>
  void finish(Tile<typename V::Element>& t, Finish<typename V::Element> out) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) {
      const auto max = t.state[i],
                 high = max > 0 ? max : 0;  // largest of the scores and of 0, because 1 = e^0
      const auto sum = t.state[t.queries + i] * std::exp(max - high) + std::exp(-high);
      out.inverse[i] = max == -INFINITY ? 1 : std::exp(max - high) / sum;
      if (out.statistic) out.statistic[i] = high + std::log(sum);
    }
  }
  template <class V>
  void weights(Tile<typename V::Element>&) const noexcept {}

  template <class V, class E = typename V::Element>
  void backward(Tile<E>& t, E* d_weights, const E* statistic, const E* delta) const noexcept {
    for (int64_t x = 0; x < t.keys * t.queries; ++x) {
      const int64_t i = x % t.queries;
      const E p = statistic[i] > -INFINITY ? std::exp(t.scores[x] - statistic[i]) : 0;
      t.scores[x] = p;
      d_weights[x] = p * (d_weights[x] - delta[i]);
    }
  }
};

// weight_j = 1 / (1 + e^-(s_j + bias)) (Ramapuram et al. 2024, arXiv:2409.04431); no statistic.
struct Sigmoid {
  static constexpr double kBias = -1;
  static inline const Declaration kDeclaration = {"sigmoid", "", "", {}};
  static constexpr Statistic kStatistic = Statistic::none;
  static constexpr bool kMergeable = false;  // parts are added without an lse
  static constexpr bool kWholeRow = false, kExtra = false, kTakesLog2 = false;
  static constexpr bool kEntropy = false;
  static constexpr Cost kCost = Cost::pass;
  static constexpr int kStateRows = 0, kCandidates = 0;
  static constexpr Delta kDelta = Delta::none;

  template <class V>
  void begin(Tile<typename V::Element>&) const noexcept {}
  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    for (int64_t x = 0; x < t.keys * t.queries; ++x)
      t.scores[x] = static_cast<typename V::Element>(1 / (1 + std::exp(-(t.scores[x] + kBias))));
  }
  template <class V>
  void finish(Tile<typename V::Element>& t, Finish<typename V::Element> out) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) {
      out.inverse[i] = 1;
      if (out.statistic) out.statistic[i] = 0;
    }
  }
  template <class V>
  void weights(Tile<typename V::Element>&) const noexcept {}

  // The statistic only shows which lanes hold a query.
  template <class V, class E = typename V::Element>
  void backward(Tile<E>& t, E* d_weights, const E* statistic, const E*) const noexcept {
    for (int64_t x = 0; x < t.keys * t.queries; ++x) {
      const bool present = statistic[x % t.queries] > -INFINITY;
      const E p = present ? static_cast<E>(1 / (1 + std::exp(-(t.scores[x] + kBias)))) : 0;
      t.scores[x] = p;
      d_weights[x] *= p * (1 - p);
    }
  }
};

// weight_j = [s_j / 2 - tau]_+^2 with sum 1 (Peters et al. 2019, arXiv:1905.05702). With x = s / 2,
// only x > max x - 1 can be in the support, so collect() keeps these candidates per query. A row
// with more candidates than fit is solved by Newton's method, with one pass over the keys per step.
// f(t) = sum [x - t]_+^2 - 1 is convex and decreasing, so the steps from t = max x - 1 approach the
// root from one side.
struct Entmax15 {
  static inline const Declaration kDeclaration = {"entmax15", "", "", {}};
  static constexpr Statistic kStatistic = Statistic::threshold;
  static constexpr bool kMergeable = false;
  static constexpr bool kWholeRow = true, kExtra = true, kTakesLog2 = false;
  static constexpr bool kEntropy = false;
  static constexpr Cost kCost = Cost::pass;
  static constexpr int kCandidates = 4;  // few, so that the tests exceed it
  static constexpr Delta kDelta = Delta::extra;
  static constexpr double kSettled = 1e-14;  // last step of the threshold, in f64
  enum State { max, count, tau, sum1, sum2, total, extra_total, kStateRows };

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    for (int64_t x = 0; x < kStateRows * t.queries; ++x) t.state[x] = 0;
    for (int64_t i = 0; i < t.queries; ++i) row(t, max)[i] = row(t, tau)[i] = -INFINITY;
  }

  template <class V>
  void collect(Tile<typename V::Element>& t) const noexcept {
    using E = typename V::Element;
    for (int64_t i = 0; i < t.queries; ++i)
      for (int64_t j = 0; j < t.keys; ++j) {
        const E x = t.scores[j * t.queries + i] / 2;
        const E threshold = row(t, tau)[i];
        if (threshold > -INFINITY) {  // a Newton pass
          if (x > threshold) {
            row(t, sum1)[i] += x - threshold;
            row(t, sum2)[i] += (x - threshold) * (x - threshold);
          }
          continue;
        }
        if (x > row(t, max)[i]) row(t, max)[i] = x;
        if (!(x > row(t, max)[i] - 1)) continue;
        E& n = row(t, count)[i];
        if (n == kCandidates) drop_old(t, i);
        if (n < kCandidates) t.candidates[static_cast<int64_t>(n) * t.queries + i] = x;
        if (n <= kCandidates) ++n;  // kCandidates + 1 means too many
      }
  }

  template <class V>
  bool solve(Tile<typename V::Element>& t) const noexcept {
    bool more = false;
    for (int64_t i = 0; i < t.queries; ++i) {
      const auto n = row(t, count)[i];
      if (n <= kCandidates) {
        if (n > 0 && row(t, tau)[i] == -INFINITY) solve_exactly(t, i);
        continue;
      }
      auto& threshold = row(t, tau)[i];
      if (threshold == -INFINITY) {
        threshold = row(t, max)[i] - 1;
        more = true;
      } else {
        const auto step = (row(t, sum2)[i] - 1) / (2 * row(t, sum1)[i]);
        threshold += step;
        more |= step > kSettled;
      }
      row(t, sum1)[i] = row(t, sum2)[i] = 0;
    }
    return more;
  }

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    t.zero = true;
    for (int64_t x = 0; x < t.keys * t.queries; ++x) {
      const int64_t i = x % t.queries;
      const auto z = t.scores[x] / 2 - row(t, tau)[i];
      const auto u = z > 0 && t.scores[x] > -INFINITY ? z : 0;
      t.second_weights[x] = u;
      t.scores[x] = u * u;
      row(t, total)[i] += u * u;
      row(t, extra_total)[i] += u;
      if (u > 0) t.zero = false;
    }
  }

  template <class V>
  void finish(Tile<typename V::Element>& t, Finish<typename V::Element> out) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) {
      out.inverse[i] = 1 / row(t, total)[i];
      if (out.extra_inverse) out.extra_inverse[i] = 1 / row(t, extra_total)[i];
      if (out.statistic) out.statistic[i] = row(t, tau)[i];
    }
  }
  template <class V>
  void weights(Tile<typename V::Element>&) const noexcept {}

  // d_scores = u (d_weights - delta), delta = rowsum(d_output * extra) (AdaSplash,
  // arXiv:2502.12082, equations 10 to 14).
  template <class V, class E = typename V::Element>
  void backward(Tile<E>& t, E* d_weights, const E* statistic, const E* delta) const noexcept {
    for (int64_t x = 0; x < t.keys * t.queries; ++x) {
      const int64_t i = x % t.queries;
      const E z = t.scores[x] / 2 - statistic[i];
      const E u = z > 0 && statistic[i] > -INFINITY ? z : 0;
      t.scores[x] = u * u;
      d_weights[x] = u * (d_weights[x] - delta[i]);
    }
  }

 private:
  template <class E>
  static E* row(Tile<E>& t, State which) {
    return t.state + which * t.queries;
  }

  template <class E>
  static void drop_old(Tile<E>& t, int64_t i) {
    int64_t kept = 0;
    for (int64_t c = 0; c < kCandidates; ++c) {
      const E x = t.candidates[c * t.queries + i];
      if (x > row(t, max)[i] - 1) t.candidates[kept++ * t.queries + i] = x;
    }
    row(t, count)[i] = static_cast<E>(kept);
  }

  // Candidates sorted so that x_1 >= x_2 ...; tau_k follows from the first k. The result is tau_k
  // for the largest k with tau_k <= x_k.
  template <class E>
  static void solve_exactly(Tile<E>& t, int64_t i) {
    E x[kCandidates];
    const int n = static_cast<int>(row(t, count)[i]);
    for (int c = 0; c < n; ++c) {
      const E value = t.candidates[c * t.queries + i];
      int at = c;
      for (; at > 0 && x[at - 1] < value; --at) x[at] = x[at - 1];
      x[at] = value;
    }
    E sum = 0, squares = 0;
    for (int k = 1; k <= n; ++k) {
      sum += x[k - 1], squares += x[k - 1] * x[k - 1];
      const E mean = sum / k, spread = squares - k * mean * mean;
      const E inside = (1 - spread) / k;
      const E candidate = mean - std::sqrt(inside > 0 ? inside : 0);
      if (candidate <= x[k - 1]) row(t, tau)[i] = candidate;
    }
  }
};

// Softcap: s' = cap tanh(s / cap). A score hook that tests score functions in the contracts.
struct SoftCap {
  static constexpr double kCap = 2;
  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    for (int64_t x = 0; x < t.keys * t.queries; ++x)
      t.scores[x] = static_cast<typename V::Element>(kCap * std::tanh(t.scores[x] / kCap));
  }
};

// s' = s - slope(head) |i - j|. A score hook that needs positions and its head.
struct Distance {
  double slope[2] = {0.25, 0.5};  // per head
  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    for (int64_t j = 0; j < t.keys; ++j)
      for (int64_t i = 0; i < t.query_positions.count; ++i)
        t.scores[j * t.queries + i] -= static_cast<typename V::Element>(
            slope[t.head->index[0]] *
            std::fabs(static_cast<double>(t.query_positions[i] - t.key_positions[j])));
  }
};

}  // namespace rapt::trial

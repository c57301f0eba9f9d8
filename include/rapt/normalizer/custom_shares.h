#pragma once
// Weights that sum to 1, by a function of your own: each is its share of the sum of its row.
//
//   u_j = weight(s_j) >= 0      weight_j = u_j / Z, Z = sum_j u_j
//
//   const rapt::CustomShares squares(
//       "squares", [](auto s, const auto&) { return s * s; },
//       [](auto s, const auto&) { return 2 * s; });
//   options.normalizer = squares;
//
// The statistic is ln Z, and -inf for a row without keys; with u_j = e^s_j it is the lse of
// softmax. It merges results over disjoint keys. If all u of a row with keys are 0, its weights are
// 0 / 0 and its output is NaN. But its lse is -inf, so merge() treats it as a row without keys, and
// its gradients are 0. A pair with a score of -inf counts as masked out: its weight is 0, and the
// function is not called.
//
// Gradient: dS = slope(s) / Z (dP - delta), slope = du/ds.
#include <cmath>

#include "rapt/normalizer/normalizer.h"
#include "rapt/pair_functions.h"

namespace rapt {

// The functions weight(s, place) and slope(s, place) get a QueryPlace. Without a slope there are no
// gradients. What the functions refer to must outlive the calls.
template <class Weight, class Slope = NoFunction>
class CustomShares {
  static_assert(PairFunction<Weight, float, QueryPlace> || PairFunction<Weight, double, QueryPlace>,
                "weight(score, place) must be callable while const, and return float or double, at "
                "least as wide as the score");
  static_assert(std::is_same_v<Slope, NoFunction> || PairFunction<Slope, float, QueryPlace> ||
                    PairFunction<Slope, double, QueryPlace>,
                "slope(score, place) must be callable while const, and return float or double, at "
                "least as wide as the score");
  static_assert(!detail::finite_math<Weight>(),
                "excluded pairs are infinities: compile without "
                "-ffinite-math-only, which -ffast-math contains");

 public:
  static constexpr Statistic kStatistic = Statistic::lse;
  static constexpr bool kMergeable = true;
  static constexpr bool kEntropy = true;
  static constexpr int kStateRows = 1;  // Z of the keys so far

  // The name is used in messages and must outlive the calls, as a literal does.
  explicit CustomShares(const char* name, Weight weight, Slope slope = {})
      : declaration_{name, "a normaliser of the caller's own", "the calling program", {}},
        weight_(static_cast<Weight&&>(weight)),
        slope_(static_cast<Slope&&>(slope)) {}

  const Declaration& declaration() const noexcept { return declaration_; }

  template <class E>
  requires PairFunction<Weight, E, QueryPlace>
  void begin(Tile<E>& t) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) t.state[i] = 0;
    for (int64_t i = 0; t.entropy && i < t.queries; ++i) t.entropy[i] = 0;
  }

  // Each block is summed before it is added, so that the rounding error grows with the sum of block
  // length and number of blocks, not with their product.
  template <class E>
  requires PairFunction<Weight, E, QueryPlace>
  void apply(Tile<E>& t) const noexcept {
    E sums[kMostQueries] = {}, logs[kMostQueries] = {};
    const bool entropy = t.entropy != nullptr;
    for_each_pair(t, [&](int64_t at, int64_t i, const QueryPlace& place) {
      const E u = weight_of(t.scores[at], place);
      t.scores[at] = u;
      sums[i] += u;
      if (entropy && u > 0) logs[i] += u * std::log(u);
    });
    for (int64_t i = 0; i < t.queries; ++i) t.state[i] += sums[i];
    for (int64_t i = 0; entropy && i < t.queries; ++i) t.entropy[i] += logs[i];
  }

  // Sums over disjoint keys are added.
  template <class E>
  requires PairFunction<Weight, E, QueryPlace>
  void merge(Tile<E>& total, const Tile<E>& part, E* total_factor, E* part_factor) const noexcept {
    for (int64_t i = 0; i < total.queries; ++i) {
      total.state[i] += part.state[i];
      if (total.entropy) total.entropy[i] += part.entropy[i];
      total_factor[i] = part_factor[i] = 1;
    }
  }

  // The entropy -sum_j w_j ln w_j is ln Z - sum_j u_j ln u_j / Z.
  template <class E>
  requires PairFunction<Weight, E, QueryPlace>
  void finish(Tile<E>& t, const Finish<E>& out) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) {
      const E sum = t.state[i];
      out.inverse[i] = 1 / sum;
      if (out.statistic) out.statistic[i] = std::log(sum);
      if (out.entropy) out.entropy[i] = std::log(sum) - t.entropy[i] / sum;
    }
  }

  template <class E>
  requires PairFunction<Weight, E, QueryPlace>
  void weights(Tile<E>& t) const noexcept {
    for_each_pair(t, [&](int64_t at, int64_t i, const QueryPlace& place) {
      t.scores[at] = weight_of(t.scores[at], place) / t.state[i];
    });
  }

  template <class E>
  requires PairFunction<Slope, E, QueryPlace>
  void backward(Tile<E>& t, E* d_weights, const E* statistic, const E* delta) const noexcept {
    E inverse[kMostQueries];
    for (int64_t i = 0; i < t.queries; ++i) inverse[i] = std::exp(-statistic[i]);
    for_each_pair(t, [&](int64_t at, int64_t i, const QueryPlace& place) {
      const E score = t.scores[at];
      const bool none = score == kExcluded<E> || statistic[i] == kExcluded<E>;
      t.scores[at] = none ? E(0) : weight_of(score, place) * inverse[i];
      d_weights[at] =
          none ? E(0)
               : static_cast<E>(slope_(E(score), place)) * inverse[i] * (d_weights[at] - delta[i]);
    });
  }

 private:
  static constexpr int kMostQueries = 64;  // of a tile: one bit each in the bits of a mask
  template <class E>
  // The score of a masked-out pair, and the statistic of a row without keys.
  static constexpr E kExcluded = -__builtin_inf();

  template <class E>
  E weight_of(E score, const QueryPlace& place) const noexcept {
    return score == kExcluded<E> ? E(0) : static_cast<E>(weight_(E(score), place));
  }

  // Calls visit(index of the score, query within the tile, place of the query).
  template <class E, class Visit>
  static void for_each_pair(const Tile<E>& t, const Visit& visit) noexcept {
    const int64_t keys = t.keys, width = t.queries;
    const Positions queries = t.query_positions;
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t i = 0; i < queries.count; ++i)
        visit(j * width + i, i, QueryPlace{queries[i], *t.head});
  }

  Declaration declaration_;
  Weight weight_;
  Slope slope_;
};

}  // namespace rapt

#pragma once
// Weights by a function of your own: each is a function of its own score, as in sigmoid and relu.
//
//   weight_j = weight(s_j)      gradient dS = slope(s) dP, slope = dweight/ds
//
//   const rapt::CustomWeights swish(
//       "swish", [](auto s, const auto&) { return s / (1 + std::exp(-s)); },
//       [](auto s, const auto&) { ... });
//   options.normalizer = swish;
//
// The weights do not sum to 1. There is no statistic (it is 0); results over disjoint keys are
// added. A pair with a score of -inf counts as masked out: its weight is 0, and the function is not
// called.
#include "rapt/normalizer/normalizer.h"
#include "rapt/pair_functions.h"

namespace rapt {

// The functions weight(s, place) and slope(s, place) get a QueryPlace. Without a slope there are no
// gradients. What the functions refer to must outlive the calls.
template <class Weight, class Slope = NoFunction>
class CustomWeights {
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
  // The name is used in messages and must outlive the calls, as a literal does.
  explicit CustomWeights(const char* name, Weight weight, Slope slope = {})
      : declaration_{name, "a normaliser of the caller's own", "the calling program", {}},
        weight_(static_cast<Weight&&>(weight)),
        slope_(static_cast<Slope&&>(slope)) {}

  const Declaration& declaration() const noexcept { return declaration_; }

  template <class E>
  requires PairFunction<Weight, E, QueryPlace>
  void begin(Tile<E>&) const noexcept {}

  template <class E>
  requires PairFunction<Weight, E, QueryPlace>
  void apply(Tile<E>& t) const noexcept { weights(t); }

  // Outputs over disjoint keys are added.
  template <class E>
  requires PairFunction<Weight, E, QueryPlace>
  void merge(Tile<E>& total, const Tile<E>&, E* total_factor, E* part_factor) const noexcept {
    for (int64_t i = 0; i < total.queries; ++i) total_factor[i] = part_factor[i] = 1;
  }

  template <class E>
  requires PairFunction<Weight, E, QueryPlace>
  void finish(Tile<E>& t, const Finish<E>& out) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) {
      out.inverse[i] = 1;
      if (out.statistic) out.statistic[i] = 0;
    }
  }

  template <class E>
  requires PairFunction<Weight, E, QueryPlace>
  void weights(Tile<E>& t) const noexcept {
    for (int64_t j = 0; j < t.keys; ++j)
      for (int64_t i = 0; i < t.query_positions.count; ++i) {
        E& score = t.scores[j * t.queries + i];
        score = weight_of(score, {t.query_positions[i], *t.head});
      }
  }

  template <class E>
  requires PairFunction<Slope, E, QueryPlace>
  void backward(Tile<E>& t, E* d_weights, const E*, const E*) const noexcept {
    for (int64_t j = 0; j < t.keys; ++j)
      for (int64_t i = 0; i < t.query_positions.count; ++i) {
        const QueryPlace place{t.query_positions[i], *t.head};
        E& score = t.scores[j * t.queries + i];
        E& d = d_weights[j * t.queries + i];
        d = score == -E(__builtin_inf()) ? E(0) : static_cast<E>(d * slope_(E(score), place));
        score = weight_of(score, place);
      }
  }

 private:
  template <class E>
  E weight_of(E score, const QueryPlace& place) const noexcept {
    return score == -E(__builtin_inf()) ? E(0) : static_cast<E>(weight_(score, place));
  }

  Declaration declaration_;
  Weight weight_;
  Slope slope_;
};

}  // namespace rapt

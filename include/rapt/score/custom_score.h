#pragma once
// A score of your own: a score function of the program that calls rapt, which is not in the
// catalogue. It can be used wherever a score of the catalogue can, alone or with others, in forward
// and backward calls.
//
//   const rapt::CustomScore graph(
//       "graph_distance",
//       [&](auto s, const auto& at) { return s - hops[at.query * n + at.key]; },  // s'
//       [](auto, const auto&) { return 1.0; });                                  // ds'/ds
//   options.scores = {softcap, graph};
//
// A score of -inf gives weight 0 but masks nothing out: the value is read, a NaN in it propagates,
// and the output of a row whose scores are all -inf is NaN. To mask pairs out, use a mask
// (rapt/mask/mask.h).
//
// A score whose parameters have ranges, gradients or a value per head is a struct with the members
// of score.h. Its hooks get a tile at a time, and the element type E takes the place of the vector
// type V:
//
//   static const Declaration kDeclaration;    or, if each object has its own,
//                             const Declaration& declaration() const noexcept
//   template <class E> void apply(Tile<E>& tile) const noexcept;
//   template <class E> void backward(const E* before, const E* after, Tile<E>& tile,
//                                    E* sums) const noexcept;
//   static constexpr bool kUsesBefore, kUsesAfter;    default: true
//
// check() of either form, tangent() and backward_tangent() of score.h are optional. A call that
// needs a missing hook is rejected with an error that names the score: without backward(), a call
// for gradients; without the last two, a call for tangents. Hooks need not be templates: if they
// exist for Tile<float> only, f64 is rejected. Hooks are const, because several threads call them
// on one object at the same time. An exception from a hook terminates the program. Lanes from
// tile.query_positions.count on have no query. What a hook writes there is ignored. Their positions
// may be beyond the end of an array with an element per query, so do not read it there.
//
// Source: score_mod of FlexAttention (Dong et al. 2024, arXiv:2412.05496), with its derivative.
#include "rapt/pair_functions.h"
#include "rapt/score/score.h"

namespace rapt {

// A type with hooks over the element type float or double.
template <class S>
concept CustomScoreType = requires(const S& score, Tile<float>& tile) {
  score.apply(tile);
}
|| requires(const S& score, Tile<double>& tile) { score.apply(tile); };

namespace detail {
template <class S, class E>
constexpr ScoreKernels<E> custom_score_kernels() {
  ScoreKernels<E> k = {};
  k.apply = [](const void* s, Tile<E>& t) noexcept { static_cast<const S*>(s)->apply(t); };
  k.uses_before = k.uses_after = true;
  if constexpr (requires { S::kUsesBefore; }) k.uses_before = S::kUsesBefore;
  if constexpr (requires { S::kUsesAfter; }) k.uses_after = S::kUsesAfter;
  if constexpr (requires(const S& s, const E* in, Tile<E>& t, E* out) {
                  s.backward(in, in, t, out);
                })
    k.backward = [](const void* s, const E* before, const E* after, Tile<E>& t, E* sums) noexcept {
      static_cast<const S*>(s)->backward(before, after, t, sums);
    };
  if constexpr (requires(const S& s, const E* in, Tile<E>& t, E* out, const double* p) {
                  s.tangent(in, t, p);
                  s.backward_tangent(in, in, t, out, p, out);
                }) {
    k.tangent = [](const void* s, const E* before, Tile<E>& t, const double* parameters) noexcept {
      static_cast<const S*>(s)->tangent(before, t, parameters);
    };
    k.backward_tangent = [](const void* s, const E* before, const E* before_tangents, Tile<E>& t,
                            E* d_tangents, const double* parameters, E* sums) noexcept {
      static_cast<const S*>(s)->backward_tangent(before, before_tangents, t, d_tangents, parameters,
                                                 sums);
    };
  }
  return k;
}
template <class S, class E>
inline constexpr ScoreKernels<E> kCustomScore = custom_score_kernels<S, E>();

// The hooks of S over E; null: S has none.
template <class S, class E>
constexpr const ScoreKernels<E>* custom_score() {
  if constexpr (requires(const S& s, Tile<E>& t) { s.apply(t); })
    return &kCustomScore<S, E>;
  else
    return nullptr;
}
}  // namespace detail

// A score from functions of one pair: value(s, place) replaces the score s, and slope(s, place) is
// its derivative with respect to s, at the same s. `place` is a PairPlace. Without a slope there
// are no gradients. What the functions refer to must outlive the calls.
template <class Value, class Slope = NoFunction>
class CustomScore {
  static_assert(PairFunction<Value, float, PairPlace> || PairFunction<Value, double, PairPlace>,
                "value(score, place) must be callable while const, and return float or double, at "
                "least as wide as the score");
  static_assert(std::is_same_v<Slope, NoFunction> || PairFunction<Slope, float, PairPlace> ||
                    PairFunction<Slope, double, PairPlace>,
                "slope(score, place) must be callable while const, and return float or double, at "
                "least as wide as the score");

 public:
  static constexpr bool kUsesBefore = true, kUsesAfter = false;

  // The name is used in messages and must outlive the calls, as a literal does.
  explicit CustomScore(const char* name, Value value, Slope slope = {})
      : declaration_{name, "a score of the caller's own", "the calling program", {}},
        value_(static_cast<Value&&>(value)),
        slope_(static_cast<Slope&&>(slope)) {}

  const Declaration& declaration() const noexcept { return declaration_; }

  // s' = value(s).
  template <class E>
  requires PairFunction<Value, E, PairPlace>
  void apply(Tile<E>& t) const noexcept {
    for_each_pair(t, [&](E& score, int64_t, const PairPlace& place) {
      score = static_cast<E>(value_(E(score), place));
    });
  }

  // d = d' slope(s). A gradient of 0 stays 0, because a masked-out pair may have any slope.
  template <class E>
  requires PairFunction<Slope, E, PairPlace>
  void backward(const E* before, const E*, Tile<E>& t, E*) const noexcept {
    for_each_pair(t, [&](E& gradient, int64_t at, const PairPlace& place) {
      if (gradient != 0) gradient = static_cast<E>(gradient * slope_(E(before[at]), place));
    });
  }

 private:
  // Calls visit(element of tile.scores, its index, place of the pair).
  template <class E, class Visit>
  static void for_each_pair(Tile<E>& t, const Visit& visit) noexcept {
    const Positions queries = t.query_positions, keys = t.key_positions;
    const Head& head = *t.head;
    E* const scores = t.scores;
    const int64_t width = t.queries, count = t.keys;
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = 0; i < queries.count; ++i)
        visit(scores[j * width + i], j * width + i, PairPlace{queries[i], keys[j], head});
  }

  Declaration declaration_;
  Value value_;
  Slope slope_;
};

}  // namespace rapt

#pragma once
// A normaliser of your own: of the project that calls rapt, without a line in the catalogue. It
// stands wherever one of the catalogue does.
//
// Where a weight follows from its own score, alone or divided by the sum of its row, two functions
// do: custom_weights.h, custom_shares.h. Weights u(s) > 0 that may overflow, as an exponential
// does, are better softmax with a score ln u(s) (rapt/score/custom_score.h), which keeps to a
// maximum per row.
//
// All else is a struct as those of normalizer.h, with the element type E in place of the vector
// type V:
//
//   static const Declaration kDeclaration;    or, where each object has its own,
//                             const Declaration& declaration() const noexcept
//   static constexpr Statistic kStatistic;    none where it is missing, and so for all constants
//   static constexpr bool kMergeable, kEntropy, kWholeRow;
//   static constexpr int kStateRows, kCandidates;
//   template <class E> void begin(Tile<E>& tile) const noexcept;
//   template <class E> void apply(Tile<E>& tile) const noexcept;
//   template <class E> void finish(Tile<E>& tile, Finish<E> result) const noexcept;
//   template <class E> void weights(Tile<E>& tile) const noexcept;
//   template <class E> void backward(Tile<E>& tile, E* d_weights, const E* statistic,
//                                    const E* delta) const noexcept;
//
// and, as there, backward_rows(), tangent(), backward_tangent(), and collect() and solve() with
// kWholeRow. Scores come in natural units. Without backward() a call that asks for gradients is
// refused by name, and so on. Hooks need not be templates: with those for Tile<float> alone, f64 is
// refused. They are const, because several threads call those of one object at once, and what one
// throws ends the program.
//
// An excluded pair has the score -inf, but in backward(), and must get weight 0. The call sees to
// that wherever a weight is used; what a hook sums up in tile.state is up to the hook. Rows know
// their position (tile.query_positions), keys do not: weights() also gets lists of keys picked
// from a row.
#include "rapt/normalizer/normalizer.h"

namespace rapt {

namespace detail {
template <class N, class E>
concept Normalizes = requires(const N& normalizer, Tile<E>& tile, const Finish<E>& result) {
  normalizer.begin(tile);
  normalizer.apply(tile);
  normalizer.finish(tile, result);
  normalizer.weights(tile);
};
}  // namespace detail

// Has hooks over the element type.
template <class N>
concept CustomNormalizerType = detail::Normalizes<N, float> || detail::Normalizes<N, double>;

namespace detail {
template <class N>
constexpr Statistic statistic_of() {
  if constexpr (requires { N::kStatistic; })
    return N::kStatistic;
  else
    return Statistic::none;
}
template <class N>
constexpr bool mergeable_of() {
  if constexpr (requires { N::kMergeable; })
    return N::kMergeable;
  else
    return false;
}

template <class N, class E>
constexpr NormalizerKernels<E> custom_normalizer_kernels() {
  NormalizerKernels<E> k = {};
  k.custom = true;
  k.delta_rows = 1;
  k.statistic = statistic_of<N>();
  if constexpr (requires { N::kStateRows; }) k.state_rows = N::kStateRows;
  if constexpr (requires { N::kEntropy; }) k.entropy = N::kEntropy;
  if constexpr (requires { N::kTakesLog2; })
    static_assert(!N::kTakesLog2, "scores come in natural units");
  if constexpr (requires { N::kExtra; })
    static_assert(!N::kExtra, "there is no extra output for normalisers of your own");
  k.begin = [](const void* n, Tile<E>& t) noexcept { static_cast<const N*>(n)->begin(t); };
  k.apply = [](const void* n, Tile<E>& t) noexcept { static_cast<const N*>(n)->apply(t); };
  k.finish = [](const void* n, Tile<E>& t, const Finish<E>& result) noexcept {
    static_cast<const N*>(n)->finish(t, result);
  };
  k.weights = [](const void* n, Tile<E>& t) noexcept { static_cast<const N*>(n)->weights(t); };
  if constexpr (requires { N::kWholeRow; }) {
    k.whole_row = N::kWholeRow;
    if constexpr (N::kWholeRow) {
      if constexpr (requires { N::kCandidates; }) k.candidates = N::kCandidates;
      k.collect = [](const void* n, Tile<E>& t) noexcept { static_cast<const N*>(n)->collect(t); };
      k.solve = [](const void* n, Tile<E>& t) noexcept -> bool {
        return static_cast<const N*>(n)->solve(t);
      };
    }
  }
  if constexpr (requires(const N& n, Tile<E>& t, E* out, const E* in) {
                  n.backward(t, out, in, in);
                })
    k.backward = [](const void* n, Tile<E>& t, E* d_weights, const E* statistic,
                    const E* delta) noexcept {
      static_cast<const N*>(n)->backward(t, d_weights, statistic, delta);
    };
  if constexpr (requires(const N& n, Tile<E>& t, E* out, const E* in) {
                  n.backward_rows(t, in, in, out);
                }) {
    k.learned = true;
    k.backward_rows = [](const void* n, Tile<E>& t, const E* statistic, const E* delta,
                         E* sums) noexcept {
      static_cast<const N*>(n)->backward_rows(t, statistic, delta, sums);
    };
  }
  if constexpr (requires(const N& n, Tile<E>& t, E* out, const E* in, const SecondTile<E>& s) {
                  n.tangent(t, out, in);
                  n.backward_tangent(t, s);
                }) {
    k.tangent = [](const void* n, Tile<E>& t, E* tangents, const E* statistic) noexcept {
      static_cast<const N*>(n)->tangent(t, tangents, statistic);
    };
    k.backward_tangent = [](const void* n, Tile<E>& t, const SecondTile<E>& second) noexcept {
      static_cast<const N*>(n)->backward_tangent(t, second);
    };
  }
  return k;
}
template <class N, class E>
inline constexpr NormalizerKernels<E> kCustomNormalizer = custom_normalizer_kernels<N, E>();

// The hooks of N over E; null: there are none.
template <class N, class E>
constexpr const NormalizerKernels<E>* custom_normalizer() {
  if constexpr (Normalizes<N, E>)
    return &kCustomNormalizer<N, E>;
  else
    return nullptr;
}
}  // namespace detail

}  // namespace rapt

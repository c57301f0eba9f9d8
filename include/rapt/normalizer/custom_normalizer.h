#pragma once
// A normaliser of your own: a struct of the program that calls rapt, which is not in the catalogue.
// It can be used wherever a normaliser of the catalogue can.
//
// Two functions suffice if a weight is a function of its own score (custom_weights.h), or such a
// function divided by its sum over the row (custom_shares.h). If u(s) > 0 may overflow, as an
// exponential does, use softmax with the score ln u(s) instead (rapt/score/custom_score.h): softmax
// subtracts the maximum of the row.
//
// Any other normaliser is a struct with the members of normalizer.h. The element type E takes the
// place of the vector type V:
//
//   static const Declaration kDeclaration;    or, if each object has its own,
//                             const Declaration& declaration() const noexcept
//   static constexpr Statistic kStatistic;                   default: none
//   static constexpr bool kMergeable, kEntropy, kWholeRow;   default: false
//   static constexpr int kStateRows;                         default: 0
//   template <class E> void begin(Tile<E>& tile) const noexcept;
//   template <class E> void apply(Tile<E>& tile) const noexcept;
//   template <class E> void finish(Tile<E>& tile, Finish<E> result) const noexcept;
//   template <class E> void weights(Tile<E>& tile) const noexcept;
//   template <class E> void backward(Tile<E>& tile, E* d_weights, const E* statistic,
//                                    const E* delta) const noexcept;
//
// The hooks backward_rows(), tangent() and backward_tangent() of normalizer.h are optional. Scores
// are in natural units. One more hook is optional:
//
//   template <class E> void merge(Tile<E>& total, const Tile<E>& part, E* total_factor,
//                                 E* part_factor) const noexcept;
//
// With it, long rows are summed in chunks of keys, which threads can share (normalizer.h). begin()
// then begins the state of every chunk: it must not add anything that counts once per row. With
// kWholeRow the hook is not used.
//
// kWholeRow: the normaliser needs the whole row before the first weight. It gets the blocks more
// than once: collect(tile) for all blocks, then bool solve(tile). Both are repeated while solve()
// of some tile returns true. Then apply(tile) gets all blocks.
//
// A call that needs a missing hook is rejected with an error that names the normaliser: without
// backward(), a call for gradients. Hooks need not be templates: if they exist for Tile<float>
// only, f64 is rejected. Hooks are const, because several threads call them on one object at the
// same time. An exception from a hook terminates the program.
//
// Except in backward(), a masked-out pair has the score -inf. It must get weight 0: the call
// ensures this wherever it uses a weight, but a hook that sums weights in tile.state must ensure it
// itself. A hook can read the positions of queries (tile.query_positions), but not those of keys:
// weights() also gets tiles of keys that were selected from a row.
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

// A type with hooks over the element type float or double.
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

// A normaliser that needs whole rows cannot be summed in parts.
template <class N, class E>
constexpr void add_custom_merge(NormalizerKernels<E>& k) {
  if constexpr (requires(const N& n, Tile<E>& t, const Tile<E>& part, E* factor) {
                  n.merge(t, part, factor, factor);
                })
    if (!k.whole_row) {
      k.begin_part = k.begin;
      k.merge = [](const void* n, Tile<E>& total, const Tile<E>& part, E* total_factor,
                   E* part_factor) noexcept {
        static_cast<const N*>(n)->merge(total, part, total_factor, part_factor);
      };
    }
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
  k.begin = [](const void* n, Tile<E>& t) noexcept { static_cast<const N*>(n)->begin(t); };
  k.apply = [](const void* n, Tile<E>& t) noexcept { static_cast<const N*>(n)->apply(t); };
  k.finish = [](const void* n, Tile<E>& t, const Finish<E>& result) noexcept {
    static_cast<const N*>(n)->finish(t, result);
  };
  k.weights = [](const void* n, Tile<E>& t) noexcept { static_cast<const N*>(n)->weights(t); };
  if constexpr (requires { N::kWholeRow; }) {
    k.whole_row = N::kWholeRow;
    if constexpr (N::kWholeRow) {
      k.collect = [](const void* n, Tile<E>& t) noexcept { static_cast<const N*>(n)->collect(t); };
      k.solve = [](const void* n, Tile<E>& t) noexcept -> bool {
        return static_cast<const N*>(n)->solve(t);
      };
    }
  }
  add_custom_merge<N>(k);
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
  if constexpr (requires { N::kSharesWithoutWeight; })
    k.shares_without_weight = N::kSharesWithoutWeight;
  return k;
}
template <class N, class E>
inline constexpr NormalizerKernels<E> kCustomNormalizer = custom_normalizer_kernels<N, E>();

// The hooks of N over E; null: N has none.
template <class N, class E>
constexpr const NormalizerKernels<E>* custom_normalizer() {
  if constexpr (Normalizes<N, E>)
    return &kCustomNormalizer<N, E>;
  else
    return nullptr;
}
}  // namespace detail

}  // namespace rapt

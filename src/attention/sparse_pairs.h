#pragma once
// The backward pass of sparse normalisers, pair by pair: of a tile of scores, only pairs that have
// a weight are multiplied.
#include "attention/gradient_keys.h"

namespace rapt {

template <class E>
class SparsePairs {
 public:
  SparsePairs(const BackwardCall<E>& call, const ScoreTiles<E>& tiles)
      : call_(call), tiles_(tiles), possible_(is_possible(call)) {}

  // Does the call need nothing of whole tiles? The same whatever gradients are wanted, and so are
  // the bits.
  bool possible() const noexcept { return possible_; }

  // Finds the pairs of a tile of scores; false: too many to be worth it, or not possible.
  // `numbers`: is what they give to the gradients of the normaliser's wanted?
  bool find(const QueryTile<E>& tile, const E* statistic, const E* delta, const uint64_t* bits,
            bool numbers = false) noexcept {
    if (!possible_) return false;
    count_ = kernels().normalizer.pairs(call_.scores.normalizer_object, tile.hooks, statistic,
                                        delta, tiles_.partial() ? bits : nullptr,
                                        tile.hooks.keys * tile.queries / kScoresPerPair, numbers,
                                        pairs());
    return count_ >= 0;
  }

  // Of the pairs that were found: sums [4][queries] for the normaliser's delta(), and all
  // gradients.
  void add_slopes(const SparseGradients<E>& of, E* sums) const noexcept {
    kernels().table.sparse.add_slopes(pairs(), count_, of, sums);
  }
  void add_gradients(const SparseGradients<E>& of) const noexcept {
    kernels().table.sparse.add_gradients(pairs(), count_, of);
  }

  static DenseRows<E> dense(const Rows& rows, int64_t first = 0) noexcept {
    return {reinterpret_cast<const E*>(rows.data) + first * rows.stride, rows.stride};
  }

 private:
  // A pair by itself takes as long as so many in whole tiles.
  static constexpr int64_t kScoresPerPair = 8;

  static bool is_possible(const BackwardCall<E>& call) noexcept {
    return call.scores.kernels.normalizer.settle && !call.scores.kernels.route.rounds() &&
           call.problem().drop_below == 0 && call.scores.scores.empty() &&
           !call.problem().has_bias && !call.problem().relative.any() &&
           !call.inputs.d_weights.data;
  }
  const Kernels<E>& kernels() const noexcept { return call_.scores.kernels; }
  SparsePair<E>* pairs() const noexcept {
    return tiles_.template scratch<SparsePair<E>>(call_.layout.pairs);
  }

  const BackwardCall<E>& call_;
  const ScoreTiles<E>& tiles_;
  bool possible_;
  int64_t count_ = 0;
};

}  // namespace rapt

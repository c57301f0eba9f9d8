#pragma once
// The backward pass of sparse normalisers, pair by pair: only the pairs of a tile that have a
// weight are multiplied.
//
// Two walks over the keys need these pairs: the one for delta and the one for the gradients. In one
// pass, the pairs found by the first walk are kept for the second. The second then computes no
// scores, unless a tile has more pairs than there is room for. The code is in the header because it
// is a template over E.
#include "attention/backward/gradient_keys.h"

namespace rapt {

// Whether the call can work pair by pair. The answer, and so the bits, do not depend on which
// gradients are wanted.
template <class E>
bool has_sparse_pairs(const Problem& p, const Kernels<E>& kernels,
                      const AttentionOptions& options) {
  return kernels.normalizer.settle && !kernels.route.rounds() && p.drop_below == 0 &&
         options.scores.empty() && !p.has_bias && !p.relative.any();
}

// Scratch of SparsePairs.
template <class E>
struct SparsePairPlaces {
  Place<SparsePair<E>> pairs;  // [block_keys][tile queries]

  void reserve(GradientScratch<E>& scratch) {
    if (has_sparse_pairs(scratch.problem, scratch.kernels, scratch.options))
      scratch.worker.place(pairs, {scratch.tile_scores()});
  }
};

// Kept pairs per query of a tile. With entmax15 and scores of standard deviation 1, 24 of 4,096
// keys have a weight on average.
inline constexpr int64_t kKeptPairs = 64;

// Where the pairs of a tile are kept. Their keys are counted from the first key of the sequence.
// Null: not kept.
template <class E>
struct KeptPairs {
  SparsePair<E>* pairs = nullptr;
  int64_t* count = nullptr;  // kIncomplete: some pairs are missing
  static constexpr int64_t kIncomplete = -1;
};

template <class E>
class SparsePairs {
 public:
  SparsePairs(const BackwardCall<E>& call, const ScoreTiles<E>& tiles)
      : call_(call), tiles_(tiles), possible_(is_possible(call)) {}

  // Whether the call can work pair by pair: has_sparse_pairs(), and no gradient of returned
  // weights.
  bool possible() const noexcept { return possible_; }

  // find() and recall() write pairs to scratch and return their number. kTooMany: whole tiles are
  // faster, or the call cannot work pair by pair.
  static constexpr int64_t kTooMany = -1;

  // Finds the pairs of a tile of scores. `wants_parameters`: also finds what the gradients of the
  // normaliser's parameters need.
  int64_t find(const QueryTile<E>& tile, const TileKeys& keys, const E* statistic, const E* delta,
               bool wants_parameters = false) const noexcept {
    if (!possible_) return kTooMany;
    return kernels().normalizer.pairs(call_.forward.normalizer_object, tile.hooks, statistic, delta,
                                      keys.allowed(), most(tile, keys.positions.count),
                                      wants_parameters, pairs());
  }

  // Keeps the pairs that find() has written, whose keys follow those kept so far for the tile.
  void keep(const KeptPairs<E>& kept, const QueryTile<E>& tile, int64_t count) const noexcept {
    if (!kept.count || *kept.count == KeptPairs<E>::kIncomplete) return;
    if (count < 0 || *kept.count + count > kKeptPairs * tile.queries) {
      *kept.count = KeptPairs<E>::kIncomplete;
      return;
    }
    const auto first = static_cast<int32_t>(tile.hooks.key_positions.start);
    for (int64_t c = 0; c < count; ++c) {
      SparsePair<E>& pair = kept.pairs[(*kept.count)++] = pairs()[c];
      pair.key += first;
    }
  }
  // Finds the pairs of the tile and these keys among the kept ones; kTooMany also if some are
  // missing.
  int64_t recall(const KeptPairs<E>& kept, const QueryTile<E>& tile,
                 Positions keys) const noexcept {
    if (!kept.count || *kept.count == KeptPairs<E>::kIncomplete) return kTooMany;
    const auto begin_of = [&](int64_t key) {
      return std::partition_point(kept.pairs, kept.pairs + *kept.count,
                                  [key](const SparsePair<E>& pair) { return pair.key < key; });
    };
    const SparsePair<E>* const begin = begin_of(keys.start);
    const SparsePair<E>* const end = begin_of(keys.start + keys.count);
    const int64_t count = end - begin;
    if (count > most(tile, keys.count)) return kTooMany;
    for (int64_t c = 0; c < count; ++c) {
      pairs()[c] = begin[c];
      pairs()[c].key -= static_cast<int32_t>(keys.start);
    }
    return count;
  }

  // Adds the `count` pairs that were found to sums [4][queries] for the normaliser's delta(), or to
  // all gradients.
  void add_slopes(int64_t count, const SparseGradients<E>& of, E* sums) const noexcept {
    kernels().table.sparse.add_slopes(pairs(), count, of, sums);
  }
  void add_gradients(int64_t count, const SparseGradients<E>& of) const noexcept {
    kernels().table.sparse.add_gradients(pairs(), count, of);
  }

  static DenseRows<E> dense(const Rows& rows, int64_t first = 0) noexcept {
    return {reinterpret_cast<const E*>(rows.data) + first * rows.stride, rows.stride};
  }

 private:
  // One pair on its own takes as long as this many pairs of a whole tile.
  static constexpr int64_t kScoresPerPair = 8;

  static int64_t most(const QueryTile<E>& tile, int64_t keys) noexcept {
    return keys * tile.queries / kScoresPerPair;
  }
  static bool is_possible(const BackwardCall<E>& call) noexcept {
    return has_sparse_pairs(call.problem(), call.forward.kernels, call.options) &&
           !call.inputs.d_weights.data;
  }
  const Kernels<E>& kernels() const noexcept { return call_.forward.kernels; }
  SparsePair<E>* pairs() const noexcept { return tiles_.at(call_.layout.sparse.pairs); }

  const BackwardCall<E>& call_;
  const ScoreTiles<E>& tiles_;
  bool possible_;
};

}  // namespace rapt

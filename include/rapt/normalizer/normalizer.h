#pragma once
// The interface of a normaliser: how a row of scores becomes weights.
//
// A normaliser N is a struct whose members are its parameters, with
//
//   static const Declaration kDeclaration;
//   static constexpr Statistic kStatistic;   what the number per row means
//   static constexpr bool kMergeable;        may states over disjoint keys be merged by their lse?
//   static constexpr bool kWholeRow;         needs the whole row before the first weight
//   static constexpr bool kExtra;            needs the extra [q_len, value_dim] output
//   static constexpr bool kTakesLog2;        takes scores in log2 units (tile.h)
//   static constexpr bool kEntropy;          finds the entropy of a row in the main pass: begin()
//                                            and apply() keep what they need in tile.entropy
//                                            where it is not null, finish() writes the entropy
//   static constexpr Cost kCost;
//   static constexpr int kStateRows;         numbers per query that it keeps while keys go by
//   static constexpr int kCandidates;        whole-row only: scores per query kept for solve()
//
// and these hooks, const, noexcept, templates over the vector type V:
//
//   begin<V>(tile)      before the first block of keys: initialise tile.state
//   apply<V>(tile)      scores -> weights up to a factor per query; sets tile.factor, tile.rescale,
//                       or leaves both as they are, rescale being false
//   finish<V>(tile, result)   after the last block, per query: what the output is multiplied by,
//                       and the statistic, also for a query that has seen no key
//   weights<V>(tile)    scores -> final weights, after finish(); for returned weights
//   backward<V>(tile, d_weights, statistic, delta)   scores -> final weights; d_weights
//                       [keys][queries] -> gradients of the scores in natural units; of no other
//                       hook's state, but from the statistic [queries] and delta [queries] =
//                       rowsum(d_output * output) - d_statistic. Where the statistic is -inf there
//                       is no key, and all becomes 0. Without this hook there are no gradients.
//
// and, if its parameters have gradients that follow from what there is per row,
//
//   backward_rows<V>(tile, statistic, delta, sums)   sums [numbers][queries] gets, added, what each
//                       query of the tile gives to the gradients of the numbers that the head has:
//                       real parameters and the head's part of tensors declared by
//                       head_parameter(), in the order of the declaration. tile.scores is not
//                       there; lanes beyond the last query may get anything
//
// and, for tangents and second derivatives (rapt/tangents.h), with scores in natural units,
// whatever kTakesLog2 says, and no state but the statistic:
//
//   tangent<V>(tile, tangents, statistic)   scores -> final weights P; tangents [keys][queries] of
//                       the scores, S' -> P o S': the weights' tangents, but for what all keys of a
//                       row share, and summed over the keys the statistic's
//   backward_tangent<V>(tile, second)   the derivative of backward(): see SecondTile
//
// A whole-row normaliser sees the blocks more than once: collect<V>(tile) for all blocks, then
// bool solve<V>(tile), and so again while solve() of some tile asks for another pass; then
// apply<V>(tile) for all blocks. Candidates are kept per query as [kCandidates][queries]; a row
// with more of them than fit is solved by further passes instead (DESIGN.md, "The tile").
//
// A sparse normaliser, of whose weights most are exactly 0, has other hooks (row_threshold.h,
// top_k_softmax.h): collect<V>(tile) for all blocks appends what may get a weight to tile.kept and
// closes a row that has more than fit; settle<V>(tile, query) makes weights of a row's candidates,
// drops the zeros, and returns how many are left. The output is a sum over those alone; there is no
// apply(). A closed row is collected once more with room for all keys. For gradients beside
// backward():
//
//   pairs<V>(tile, statistic, delta, bits, most, numbers, pairs)   the pairs of the tile that have
//                       a weight, key by key, as far as bits [keys] (null: all) allow them; returns
//                       how many, or -1 where there are more than `most`, for which, and for a
//                       vector of queries more, `pairs` has room
//   bounds<V>(tile, statistic, delta, bounds)   numbers [queries], at or below which no score of
//                       the row gets a weight; with null for a statistic, as far as collect() has
//                       seen the row, so that what else it sees and is at or below may be -inf
//
// and, where delta is not that of the output, but one with the slopes u of its own formula for
// backward(),
//
//   add_slopes<V>(tile, d_weights, statistic, numbers, sums)   sums [4][queries] += the tile's
//                       sum_j u_j, sum_j u_j dP_j and, if numbers are wanted, sum_j c_j, sum_j c_j
//                       dP_j, c as in its formula for the gradient of its number. Excluded pairs
//                       are -inf
//   delta<V>(tile, sums, statistic, d_statistic, delta, number_sums)   what backward() takes as
//                       delta; and what each query gives to the gradient of the number that the
//                       head has, [queries]. d_statistic may be null, number_sums is where that is
//                       not wanted. kLearned says that there is such a number
//
// or, where the statistic does not tell which pairs have a weight, kDeltaRows = 2: behind delta
// [queries] then stands the cut [queries], at or below which a score has none, found by
//
//   cut_capacity<V>(k_len, block)   numbers per query that tile.kept must hold for it; 0: no row
//                       of so many keys has a cut, which stays -inf
//   find_cut<V>(tile, cut), settle_cut<V>(tile, cut)   for all blocks, then once; excluded pairs
//                       are -inf, and so are the cuts at first
//
// A normaliser of a project that calls rapt has the same hooks over the element type, but for those
// of sparse normalisers: custom_normalizer.h.
#include <type_traits>

#include "rapt/declaration.h"
#include "rapt/state.h"
#include "rapt/tile.h"

namespace rapt {

// What finish() writes, each [queries]. Null: not wanted.
template <class E>
struct Finish {
  E* inverse = nullptr;        // multiplies the output; never null
  E* extra_inverse = nullptr;  // multiplies the extra output
  E* statistic = nullptr;
  E* entropy = nullptr;
};

// What backward_tangent() works on beside tile.scores: gradients as backward() has them, and with a
// prime the tangents of everything.
template <class E>
struct SecondTile {
  E* d_weights;                // [keys][queries] dP -> dS
  E* tangents;                 // [keys][queries] S' -> P'
  E* d_weights_tangents;       // [keys][queries] dP' -> dS'
  const E* statistic;          // [queries]
  const E* delta;              // [queries]
  const E* statistic_tangent;  // [queries]
  const E* delta_tangent;      // [queries]
};

// A pair with a weight P, of a tile; dS = slope (dP - delta). `number`: c, see add_slopes().
template <class E>
struct SparsePair {
  E weight, slope, number;
  int32_t key, query;  // counted within the tile
};

// The hooks of a normaliser as a call finds them: of the catalogue for one vector type, or of a
// normaliser of your own. `normalizer` is the struct.
template <class E>
struct NormalizerKernels {
  using Hook = void (*)(const void* normalizer, Tile<E>& tile) noexcept;  // one without arguments

  Statistic statistic;
  bool whole_row, extra, takes_log2, entropy;  // kWholeRow, kExtra, kTakesLog2, kEntropy
  bool custom;                 // of your own: excluded pairs get weight 0 whatever it makes of them
  int state_rows, candidates;  // kStateRows, kCandidates
  Hook begin, collect, apply, weights;  // collect and solve: whole-row normalisers only
  // Null for all but whole-row normalisers.
  bool (*solve)(const void* normalizer, Tile<E>& tile) noexcept;
  // Null for a normaliser without a backward pass.
  void (*backward)(const void* normalizer, Tile<E>& tile, E* d_weights, const E* statistic,
                   const E* delta) noexcept;
  // Null where the parameters have no gradients, or delta() makes them.
  void (*backward_rows)(const void* normalizer, Tile<E>& tile, const E* statistic, const E* delta,
                        E* sums) noexcept;
  // Both null for a normaliser without tangents and second derivatives.
  void (*tangent)(const void* normalizer, Tile<E>& tile, E* tangents, const E* statistic) noexcept;
  void (*backward_tangent)(const void* normalizer, Tile<E>& tile,
                           const SecondTile<E>& second) noexcept;
  void (*finish)(const void* normalizer, Tile<E>& tile, const Finish<E>& result) noexcept;
  bool learned;    // have the parameters gradients?
  int delta_rows;  // numbers per query that backward() takes as delta
  // Null for all but sparse normalisers, which have `collect`, too, and no `apply`.
  int64_t (*settle)(const void* normalizer, Tile<E>& tile, int64_t query) noexcept;
  int64_t (*pairs)(const void* normalizer, const Tile<E>& tile, const E* statistic, const E* delta,
                   const uint64_t* bits, int64_t most, bool numbers, SparsePair<E>* pairs) noexcept;
  void (*bounds)(const void* normalizer, const Tile<E>& tile, const E* statistic, const E* delta,
                 E* bounds) noexcept;
  // Of sparse normalisers with slopes of their own.
  void (*add_slopes)(const void* normalizer, Tile<E>& tile, const E* d_weights, const E* statistic,
                     bool numbers, E* sums) noexcept;
  void (*delta)(const void* normalizer, const Tile<E>& tile, const E* sums, const E* statistic,
                const E* d_statistic, E* delta, E* number_sums) noexcept;
  // Of those with a cut.
  int64_t (*cut_capacity)(const void* normalizer, int64_t k_len, int64_t block) noexcept;
  void (*find_cut)(const void* normalizer, Tile<E>& tile, E* cut) noexcept;
  void (*settle_cut)(const void* normalizer, Tile<E>& tile, E* cut) noexcept;
};

template <class... T>
struct TypeList {};  // variants, by their types

// Position of N in a type list, -1 if it is not there.
template <class N, class... T>
constexpr int index_in(TypeList<T...>) {
  int i = 0, found = -1;
  (((std::is_same_v<N, T> ? found = i : 0), ++i), ...);
  return found;
}

}  // namespace rapt

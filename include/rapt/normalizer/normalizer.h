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
//   apply<V>(tile)      scores -> weights up to a factor per query; sets tile.factor, tile.rescale
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
// A sparse normaliser, of whose weights most are exactly 0, has other hooks (row_threshold.h):
// collect<V>(tile) for all blocks appends what may get a weight to tile.kept and closes a row that
// has more than fit; settle<V>(tile, query) makes weights of a row's candidates, drops the zeros,
// and returns how many are left. The output is a sum over those alone; there is no apply(). A
// closed row is collected once more with room for all keys. For gradients beside backward():
//
//   add_slopes<V>(tile, d_weights, statistic, sums)   sums [2][queries] += sum_j u_j, sum_j u_j
//   dP_j
//                       of the tile, u as in its formula for backward(). Excluded pairs are -inf
//   delta<V>(queries, sums, d_statistic, delta)   what backward() takes as delta; d_statistic may
//                       be null
//   pairs<V>(tile, statistic, bits, most, pairs)   the pairs of the tile that have a weight, key by
//                       key, as far as bits [keys] (null: all) allow them; returns how many, or -1
//                       where there are more than `most`
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

// A pair with a weight P, of a tile; dS = slope (dP - delta).
template <class E>
struct SparsePair {
  E weight, slope;
  int32_t key, query;  // counted within the tile
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

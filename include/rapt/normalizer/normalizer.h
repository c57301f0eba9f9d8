#pragma once
// The interface of a normaliser, which turns a row of scores into weights.
//
// A normaliser N is a struct whose members are its parameters, with
//
//   static const Declaration kDeclaration;
//   static constexpr Statistic kStatistic;   what the number per row means
//   static constexpr bool kMergeable;        states over disjoint keys can be merged by their lse
//   static constexpr bool kTakesLog2;        accepts scores in log2 units (tile.h)
//   static constexpr bool kEntropy;          computes the entropy of a row in the main pass:
//                                            begin() and apply() keep sums in tile.entropy unless
//                                            it is null, and finish() writes the entropy
//   static constexpr int kStateRows;         numbers per query that are kept between blocks
//   static constexpr bool kHeadInBegin;      optional: begin() alone of the forward hooks reads the
//                                            head, so a tile may have queries of several
//
// and these hooks, const, noexcept, templates over the vector type V:
//
//   begin<V>(tile)      before the first block of keys: initialises tile.state
//   apply<V>(tile)      scores -> weights up to a factor per query. Sets tile.factor and
//                       tile.rescale, or leaves both unchanged (tile.rescale is then false)
//   finish<V>(tile, result)   after the last block: writes the factor of the output and the
//                       statistic of each query, also of queries without keys
//   weights<V>(tile)    scores -> final weights, after finish(); for returned weights
//   merge<V>(total, part, total_factor, part_factor)   optional: adds the state and the entropy of
//                       a part to those of a total, over disjoint keys of the same queries. Writes
//                       the factors [queries] of both outputs. A side without keys changes no bit
//                       of the other: its factor is 0 or 1, that of the other is 1. It must not
//                       read the head. Long rows are then summed in chunks of keys that threads can
//                       share (src/attention/forward/chunks.h); without this hook they are not
//   begin_part<V>(tile) before the first key of such a part; as begin(), but without what begin()
//                       adds to the keys of a row (sinks). Default: begin()
//   backward<V>(tile, d_weights, statistic, delta)   scores -> final weights; d_weights
//                       [keys][queries] -> gradients of the scores in natural units. Reads the
//                       statistic [queries] and delta [queries] (rapt/backward.h), but no state of
//                       other hooks. A query whose statistic is -inf has no key: its weights and
//                       gradients become 0. Without this hook there are no gradients.
//
// and, if its parameters have gradients that are sums of one term per row,
//
//   backward_rows<V>(tile, statistic, delta, sums)   adds to sums [numbers][queries] the terms of
//                       each query for the gradients of the head's learned parameters: real
//                       parameters and the head's part of tensors declared by head_parameter(), in
//                       the order of the declaration. It must not read tile.scores. Lanes beyond
//                       the last query may get any value
//
// and, for tangents and second derivatives (rapt/tangents.h), with scores in natural units even if
// kTakesLog2 is set, and without state other than the statistic:
//
//   tangent<V>(tile, tangents, statistic)   scores -> final weights P. tangents [keys][queries]: on
//                       entry S', the tangents of the scores; on return those of the weights,
//                       without the term that all keys of a row share (softmax: P o S'). Their sum
//                       over the keys of a row is the tangent of the statistic. With
//                       kSharesWithoutWeight, keys of weight 0 take part in that sum, and the call
//                       then sets their tangents to 0
//   backward_tangent<V>(tile, second)   the derivative of backward(): see SecondTile
//
// A sparse normaliser, most of whose weights are exactly 0, has other hooks (row_threshold.h,
// top_k_softmax.h). collect<V>(tile) gets all blocks; it appends the scores that may get a weight
// to tile.kept, and closes a row that has more than fit. settle<V>(tile, query) turns the
// candidates of a row into weights, drops zeros, and returns how many are left. The output sums
// only their values; there is no apply(). A closed row is collected once more with room for all
// keys. For gradients there are, beside backward(),
//
//   pairs<V>(tile, statistic, delta, bits, most, numbers, pairs)   lists the pairs of the tile that
//                       have a weight, key by key, among those that bits [keys] allow (null: all).
//                       Returns their number, or -1 if there are more than `most`. `pairs` has room
//                       for `most` pairs and a vector of queries more. `numbers`: whether
//                       SparsePair::number is wanted
//   bounds<V>(tile, statistic, delta, bounds)   bounds [queries]: a score at or below its bound has
//                       no weight. Without a statistic (null) the bounds follow from the blocks
//                       that collect() has processed; scores of later blocks that are at or below
//                       their bound may then be replaced by -inf
//
// and, if delta is not rowsum(d_output o output) but a mean weighted by slopes u (see the formulas
// of the normaliser),
//
//   add_slopes<V>(tile, d_weights, statistic, numbers, sums)   sums [4][queries] += the tile's
//                       sum_j u_j, sum_j u_j dP_j and, with `numbers`, sum_j c_j, sum_j c_j dP_j,
//                       where c is a factor in the gradient of the normaliser's learned parameter.
//                       Scores of masked-out pairs are -inf
//   delta<V>(tile, sums, statistic, d_statistic, delta, number_sums)   computes delta [queries] for
//                       backward(), and number_sums [queries]: the terms of each query for the
//                       gradient of the head's learned parameter. d_statistic and number_sums may
//                       be null. kLearned declares that there is such a parameter
//
// or, if the statistic does not tell which pairs have a weight, kDeltaRows = 2: delta [queries] is
// then followed by the cut [queries]. A score at or below the cut has no weight. These hooks find
// it:
//
//   cut_capacity<V>(k_len, block)   numbers per query that tile.kept must hold for the search; 0:
//                       rows of at most k_len keys have no cut (it stays -inf)
//   find_cut<V>(tile, cut), settle_cut<V>(tile, cut)   for all blocks; once after them. Scores of
//                       masked-out pairs are -inf, and the cuts are -inf at first
//
// Normalisers of your own have the same hooks over the element type, except for those of sparse
// normalisers: custom_normalizer.h.
#include <type_traits>

#include "rapt/declaration.h"
#include "rapt/state.h"
#include "rapt/tile.h"

namespace rapt {

// What finish() writes, each [queries]. Null: not wanted.
template <class E>
struct Finish {
  E* inverse = nullptr;  // multiplies the output; never null
  E* statistic = nullptr;
  E* entropy = nullptr;
};

// The arrays of backward_tangent() beside tile.scores: gradients as in backward(), and the tangents
// of everything, marked by a prime.
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

// A pair of a tile with a weight P; dS = slope (dP - delta). `number`: c of add_slopes().
template <class E>
struct SparsePair {
  E weight, slope, number;
  int32_t key, query;  // counted within the tile
};

// The hooks of a normaliser for a call: of the catalogue, compiled for one vector type, or of a
// normaliser of your own. `normalizer` is the struct.
template <class E>
struct NormalizerKernels {
  using Hook = void (*)(const void* normalizer, Tile<E>& tile) noexcept;  // one without arguments

  Statistic statistic;
  bool takes_log2, entropy;  // kTakesLog2, kEntropy
  bool custom;               // of your own: the call sets weights of masked-out pairs to 0
  bool whole_row;            // of your own only: needs collect() and solve()
  int state_rows;            // kStateRows
  Hook begin, collect, apply, weights;  // collect: for whole rows and lists; apply: not for lists
  Hook begin_part;                      // set if merge is
  // Null: the state of a row cannot be merged.
  void (*merge)(const void* normalizer, Tile<E>& total, const Tile<E>& part, E* total_factor,
                E* part_factor) noexcept;
  // Whole-row normalisers only, else null.
  bool (*solve)(const void* normalizer, Tile<E>& tile) noexcept;
  // Null for a normaliser without a backward pass.
  void (*backward)(const void* normalizer, Tile<E>& tile, E* d_weights, const E* statistic,
                   const E* delta) noexcept;
  // Null if the parameters have no gradients, or if delta() computes them.
  void (*backward_rows)(const void* normalizer, Tile<E>& tile, const E* statistic, const E* delta,
                        E* sums) noexcept;
  // Both null for a normaliser without tangents and second derivatives.
  void (*tangent)(const void* normalizer, Tile<E>& tile, E* tangents, const E* statistic) noexcept;
  void (*backward_tangent)(const void* normalizer, Tile<E>& tile,
                           const SecondTile<E>& second) noexcept;
  void (*finish)(const void* normalizer, Tile<E>& tile, const Finish<E>& result) noexcept;
  bool shares_without_weight;  // kSharesWithoutWeight
  bool head_in_begin;          // kHeadInBegin
  bool learned;                // the parameters have gradients
  int delta_rows;              // numbers per query in the delta of backward()
  // Sparse normalisers only, else null. These also have `collect`, and no `apply`.
  int64_t (*settle)(const void* normalizer, Tile<E>& tile, int64_t query) noexcept;
  int64_t (*pairs)(const void* normalizer, const Tile<E>& tile, const E* statistic, const E* delta,
                   const uint64_t* bits, int64_t most, bool numbers, SparsePair<E>* pairs) noexcept;
  void (*bounds)(const void* normalizer, const Tile<E>& tile, const E* statistic, const E* delta,
                 E* bounds) noexcept;
  // Sparse normalisers whose delta is weighted by slopes, else null.
  void (*add_slopes)(const void* normalizer, Tile<E>& tile, const E* d_weights, const E* statistic,
                     bool numbers, E* sums) noexcept;
  void (*delta)(const void* normalizer, const Tile<E>& tile, const E* sums, const E* statistic,
                const E* d_statistic, E* delta, E* number_sums) noexcept;
  // Sparse normalisers with a cut, else null.
  int64_t (*cut_capacity)(const void* normalizer, int64_t k_len, int64_t block) noexcept;
  void (*find_cut)(const void* normalizer, Tile<E>& tile, E* cut) noexcept;
  void (*settle_cut)(const void* normalizer, Tile<E>& tile, E* cut) noexcept;
};

// The position of N in a type list; -1: it is not in the list.
template <class N, class... T>
constexpr int index_in(TypeList<T...>) {
  int i = 0, found = -1;
  (((std::is_same_v<N, T> ? found = i : 0), ++i), ...);
  return found;
}

}  // namespace rapt

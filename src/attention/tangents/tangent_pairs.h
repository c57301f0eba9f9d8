#pragma once
// The pairs of a query tile and a key block: scores, weights and their gradients, each beside its
// tangent. Formulas: rapt/tangents.h. The code is in the header because it is a template over E.
#include "attention/backward/score_gradients.h"
#include "attention/tangents/tangent_keys.h"
#include "attention/tangents/tangent_unit.h"

namespace rapt {

// Arrays of a tile and a block, each [keys][queries]. In the symbols of the formulas: scores hold
// S, then P; tangents S', then P'; d_weights dP, dS, dZ; d_weights_tangents dP', dS', dZ'.
template <class E>
struct TangentArrays {
  E *scores, *tangents, *d_weights, *d_weights_tangents;
  uint64_t* bits;  // [keys]: of TileKeys
};

// Where the sums of the loaded keys are kept.
template <class E>
struct TangentKeySums {
  E *d_key, *d_value;     // [loaded][dims]
  double *bias, *scores;  // of the part
};

// Scratch of TangentPairs.
template <class E>
struct TangentPairPlaces {
  Place<E> scores, tangents;               // [tiles][block_keys][queries]: see TangentArrays
  Place<E> d_weights, d_weights_tangents;  // the same, for second derivatives
  Place<uint64_t> bits;                    // [tiles][block_keys]: which queries may attend
  Place<uint64_t> other_bits;              // [block_keys]
  Place<E> before, before_tangents;        // [score functions][block_keys][queries]
  Place<E> parameter_sums;                 // [parameters][queries]

  void reserve(GradientScratch<E>& scratch, bool second) {
    auto& memory = scratch.worker;
    const int64_t tiles = scratch.tiles, tile_scores = scratch.tile_scores();
    memory.place(scores, {tiles, tile_scores});
    memory.place(tangents, {tiles, tile_scores});
    memory.place_if(second, d_weights, {tiles, tile_scores});
    memory.place_if(second, d_weights_tangents, {tiles, tile_scores});
    memory.place(bits, {tiles, scratch.tiling.block_keys});
    memory.place(other_bits, {scratch.tiling.block_keys});
    const auto functions = static_cast<int64_t>(scratch.options.scores.size());
    memory.place_if(functions > 0, before, {functions, tile_scores});
    memory.place_if(functions > 0, before_tangents, {functions, tile_scores});
    if (functions > 0)
      memory.place(parameter_sums, {scratch.wanted.head_parameter_count, scratch.tile});
  }
};

template <class E>
class TangentPairs {
 public:
  using Unit = TangentUnit<E>;
  using Keys = TangentKeys<E>;
  using Arrays = TangentArrays<E>;
  using KeySums = TangentKeySums<E>;

  TangentPairs(const TangentCall<E>& call, ScoreTiles<E>& tiles, const Unit& unit,
               const Keys& loaded_keys)
      : call_(call),
        p_(call.problem()),
        in_(call.inputs),
        places_(call.layout.pairs),
        kernels_(call.forward.kernels),
        gradients_(kernels_.table.gradients),
        keep_(kernels_.table.dropout.keep),
        tiles_(tiles),
        unit_(unit),
        keys_(loaded_keys),
        kept_factor_(static_cast<E>(p_.kept_factor())) {}

  // The arrays of the work unit's tile i.
  Arrays arrays_of(int64_t i) const noexcept {
    return {tiles_.at(places_.scores, i), tiles_.at(places_.tangents, i),
            or_null(places_.d_weights, i), or_null(places_.d_weights_tangents, i),
            tiles_.at(places_.bits, i)};
  }

  // Computes S and S' of a tile, also of masked-out pairs. Returns no keys if the tile attends to
  // none of these.
  TileKeys make_scores(QueryTile<E>& tile, Positions keys, const Arrays& a) noexcept {
    if (tile.range.begin >= keys.start + keys.count || tile.range.end <= keys.start) return {};
    TileKeys made = tiles_.mask_keys(tile, keys, a.bits);
    if (made.none()) return made;
    KeyBlock block;
    block.begin = keys.start, block.end = keys.start + keys.count;
    block.key = reinterpret_cast<const std::byte*>(keys_.rows(Keys::kKey, keys.start));
    block.key_stride = 2 * p_.head_dim;
    const auto& scores = call_.forward.score_functions;
    const int64_t count = keys.count * tile.queries;
    E* const before = or_null(places_.before, 0);
    tiles_.compute_scores(tile, block, made, a.scores, before, ScoreTiles<E>::Keep::found);
    multiply_pairs(tile, keys, unit_.query_pair_t(tile), in_.has_query_tangents(), Keys::kKey,
                   in_.key.data, a.tangents);

    if (p_.bias_first) add_bias_tangents(tile, keys, a);
    E* before_tangents = or_null(places_.before_tangents, 0);
    Tile<E> tangents = tile.hooks;
    tangents.scores = a.tangents;
    const double* parameters = in_.head_parameters_of(tiles_.head());
    for (size_t s = 0; s < scores.size(); ++s) {
      const ScoreKernels<E>& kernel = hooks_of(scores[s], kernels_.table);
      before_tangents = std::copy_n(a.tangents, count, before_tangents);
      kernel.tangent(scores[s].object, before + static_cast<int64_t>(s) * count, tangents,
                     parameters);
      parameters += call_.wanted.parameter_counts[s];
    }
    if (!p_.bias_first) add_bias_tangents(tile, keys, a);
    return made;
  }

  // S, S' -> P, P o S', whose sum over the keys is lse'. Without a statistic, the tangent of a
  // weight depends on its own score alone.
  void make_weights(QueryTile<E>& tile, const TileKeys& keys, const Arrays& a) noexcept {
    kernels_.normalizer.tangent(call_.forward.normalizer_object, tile.hooks, a.tangents,
                                unit_.row_value(Unit::kLse) + tile.offset);
    keep_allowed(tile, keys, {a.scores, a.tangents});
    if (kernels_.normalizer.statistic == Statistic::none) return;
    gradients_.add_sums(a.tangents, keys.positions.count, tile.queries,
                        unit_.row_value(Unit::kLseTangent) + tile.offset);
    if (!kernels_.normalizer.shares_without_weight) return;
    for (int64_t x = 0; x < keys.positions.count * tile.queries; ++x)
      if (a.scores[x] == 0) a.tangents[x] = 0;
  }

  // Applies dropout to P and P o S'.
  void drop_weights(const QueryTile<E>& tile, Positions keys, const Arrays& a) noexcept {
    if (const uint64_t* const kept = kept_of(tile))
      keep(tile, keys, kept, kept_factor_, {a.scores, a.tangents});
  }

  // Computes dP and dP'. Returns the pairs that dropout keeps; null: all.
  const uint64_t* multiply_values(const QueryTile<E>& tile, Positions keys,
                                  const Arrays& a) noexcept {
    const E* const pair_t = unit_.d_output_pair_t(tile);
    kernels_.route.products[tile.vectors - 1].scores(
        pair_t + p_.value_dim * tile.queries, keys_.rows(Keys::kValue, keys.start),
        2 * p_.value_dim, keys.count, p_.value_dim, E(1), a.d_weights, tiles_.row(kBlockMax));
    multiply_pairs(tile, keys, pair_t, in_.d_output.data, Keys::kValue, in_.value.data,
                   a.d_weights_tangents);
    const uint64_t* const kept = kept_of(tile);
    if (kept) keep(tile, keys, kept, kept_factor_, {a.d_weights, a.d_weights_tangents});
    return kept;
  }

  // Computes P, P', dZ, dZ' from S and S'. With `sums` it adds to the sums per key, else to those
  // per query.
  void make_gradients(QueryTile<E>& tile, const TileKeys& tile_keys, const Arrays& a,
                      const KeySums* sums) noexcept {
    const Positions keys = tile_keys.positions;
    const uint64_t* const kept = multiply_values(tile, keys, a);
    const auto row_value = [&](typename Unit::RowValue n) {
      return unit_.row_value(n) + tile.offset;
    };
    kernels_.normalizer.backward_tangent(
        call_.forward.normalizer_object, tile.hooks,
        {a.d_weights, a.tangents, a.d_weights_tangents, row_value(Unit::kLse),
         row_value(Unit::kDelta), row_value(Unit::kLseTangent), row_value(Unit::kDeltaTangent)});
    keep_allowed(tile, tile_keys, {a.scores, a.tangents, a.d_weights, a.d_weights_tangents});
    if (kept) keep(tile, keys, kept, E(1), {a.scores, a.tangents});
    if (call_.wanted.bias && !p_.bias_first) add_bias(tile, keys, a, sums);
    undo_scores(tile, keys, a, sums);
    if (call_.wanted.bias && p_.bias_first) add_bias(tile, keys, a, sums);
  }

  // Sets masked-out pairs to 0, even if they are NaN.
  void keep_allowed(const QueryTile<E>& tile, const TileKeys& keys,
                    std::initializer_list<E*> arrays) noexcept {
    if (keys.partial) keep(tile, keys.positions, keys.bits, E(1), arrays);
  }

 private:
  E* or_null(const Place<E>& place, int64_t row) const noexcept {
    return place.in_or_null(tiles_.scratch(), row);
  }

  // Adds the tangents of the bias, which mask out no pair, to those of the scores.
  void add_bias_tangents(const QueryTile<E>& tile, Positions keys, const Arrays& a) noexcept {
    if (!in_.bias.data) return;
    kernels_.table.add_bias[static_cast<int>(in_.bias.dtype)](
        a.tangents,
        tiles_.query_row(in_.bias, tile.positions.start) +
            keys.start * in_.bias.dim_stride * size_of(in_.bias.dtype),
        in_.bias.row_stride, in_.bias.dim_stride, keys.count, tile.positions.count, tile.queries,
        tiles_.at(places_.other_bits), tiles_.row(kBlockMax));
  }

  // Multiplies pairs whose bit is set by `factor`; sets the others to 0.
  void keep(const QueryTile<E>& tile, Positions keys, const uint64_t* bits, E factor,
            std::initializer_list<E*> arrays) noexcept {
    for (E* const array : arrays) keep_(array, bits, keys.count, tile.queries, factor);
  }
  const uint64_t* kept_of(const QueryTile<E>& tile) const noexcept {
    return p_.drop_below > 0 ? tiles_.kept(tile) : nullptr;
  }

  // out = A' B^T + A B'^T for a pair (A', A) of a tile and a pair (B, B') of keys; an absent
  // tangent counts as 0.
  void multiply_pairs(const QueryTile<E>& tile, Positions keys, const E* pair_t, bool first,
                      typename Keys::Rows primal, bool second, E* out) noexcept {
    const int64_t dims = keys_.dims_of(primal), skipped = first ? 0 : dims;
    const int64_t count = (first + second) * dims;
    if (count == 0) {
      std::fill_n(out, keys.count * tile.queries, E(0));
      return;
    }
    kernels_.route.products[tile.vectors - 1].scores(
        pair_t + skipped * tile.queries, keys_.rows(primal, keys.start) + skipped, 2 * dims,
        keys.count, count, E(1), out, tiles_.row(kBlockMax));
  }

  void add_bias(const QueryTile<E>& tile, Positions keys, const Arrays& a,
                const KeySums* sums) noexcept {
    add_bias_gradient(tiles_, gradients_, tile, keys, a.d_weights_tangents,
                      {.queries = !sums, .keys = sums != nullptr}, call_.targets.bias,
                      sums ? sums->bias : nullptr);
  }

  // Applies the backward_tangent hooks of the score functions to dS and dS'.
  void undo_scores(const QueryTile<E>& tile, Positions keys, const Arrays& a,
                   const KeySums* sums) noexcept {
    if (call_.forward.score_functions.empty()) return;
    Tile<E> gradients = tile.hooks;
    gradients.scores = a.d_weights;
    E* const lanes = tiles_.at(places_.parameter_sums);
    rapt::undo_scores(
        call_.forward, call_.wanted, tile.queries, lanes,
        call_.wanted.score_parameters && sums ? sums->scores : nullptr,
        [&](const ScoreKernels<E>& kernel, const void* score, int64_t nth, int64_t number) {
          const int64_t at = nth * keys.count * tile.queries;
          kernel.backward_tangent(score, tiles_.at(places_.before) + at,
                                  tiles_.at(places_.before_tangents) + at, gradients,
                                  a.d_weights_tangents,
                                  in_.head_parameters_of(tiles_.head()) + number, lanes);
        });
  }

  const TangentCall<E>& call_;
  const Problem& p_;
  const TangentInputs& in_;
  const TangentPairPlaces<E>& places_;
  const Kernels<E>& kernels_;
  const GradientKernels<E>& gradients_;
  decltype(DropoutKernels<E>::keep) keep_;
  ScoreTiles<E>& tiles_;
  const Unit& unit_;
  const Keys& keys_;
  E kept_factor_;  // of dropout
};

}  // namespace rapt

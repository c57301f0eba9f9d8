#pragma once
// A work unit of the backward pass: its arrays in memory, and its state during a walk over keys.
#include "attention/backward/sparse_pairs.h"

namespace rapt {

// The most tiles of a work unit: each has at least one vector of 4 lanes.
inline constexpr int kMostUnitTiles = 16;

// Which gradients a walk makes: d_query (and sums per query), d_key and d_value (and sums per key),
// or both.
struct Sides {
  bool queries, keys;
};

// Arrays over the queries of a component at work; in two passes, of a work unit.
template <class E>
struct QueryPlaces {
  ComponentPlace<std::byte> query_t;            // tiles [head_dim][queries] of the route's elements
  ComponentPlace<std::byte> transformed_query;  // [queries][head_dim] of the inputs' dtype
  ComponentPlace<std::byte> position_t;         // as query_t, for products with key_rows
  ComponentPlace<std::byte> position_query;     // as transformed_query, for position_t
  ComponentPlace<std::byte> rounded;            // [queries][prefilter_query_bytes]
  ComponentPlace<std::byte> d_output_t;  // tiles [value_dim][queries] of the route's elements
  ComponentPlace<E> statistic;           // [queries]
  ComponentPlace<E> delta;               // tiles [delta rows][queries]
  // Only for sparse normalisers, in one pass:
  ComponentPlace<SparsePair<E>> kept_pairs;  // [queries][kKeptPairs]
  ComponentPlace<int64_t> kept_counts;       // [queries], one used per tile: its kept pairs

  void reserve(GradientScratch<E>& scratch) {
    const Problem& p = scratch.problem;
    auto& memory = scratch.component;
    const int64_t queries = scratch.queries();
    const int64_t query = scratch.packed_bytes(p.head_dim),
                  stored = scratch.stored_bytes(p.head_dim);
    memory.place(query_t, {queries, query});
    memory.place_if(p.rows.any(), transformed_query, {queries, stored});
    memory.place_if(p.rows.adds_biases, position_t, {queries, query});
    memory.place_if(p.rows.adds_biases, position_query, {queries, stored});
    if (scratch.kernels.prefilter)
      memory.place(rounded, {queries, prefilter_query_bytes(p.head_dim)});
    memory.place(d_output_t, {queries, scratch.packed_bytes(p.value_dim)});
    memory.place(statistic, {queries});
    memory.place(delta, {queries, scratch.kernels.normalizer.delta_rows});
    const bool keeps =
        !scratch.wanted.two_passes && has_sparse_pairs(p, scratch.kernels, scratch.options);
    memory.place_if(keeps, kept_pairs, {queries, kKeptPairs});
    memory.place_if(keeps, kept_counts, {queries});
  }
};

// The arrays of a work unit, each from the work unit's query `offset` on.
template <class E>
struct UnitArrays {
  const QueryPlaces<E>* places = nullptr;
  std::byte* memory = nullptr;  // of the component
  int64_t first = 0;            // the place of the work unit's first query

  std::byte* query_t(int64_t offset) const noexcept { return at(places->query_t, offset); }
  // query_t where no bias is added.
  std::byte* position_t(int64_t offset) const noexcept {
    return places->position_t.exists() ? at(places->position_t, offset) : query_t(offset);
  }
  // Null where rows are not transformed, and where no bias is added.
  std::byte* transformed_query(int64_t offset) const noexcept {
    return places->transformed_query.in_or_null(memory, first + offset);
  }
  std::byte* position_query(int64_t offset) const noexcept {
    return places->position_query.in_or_null(memory, first + offset);
  }
  std::byte* rounded(int64_t offset) const noexcept { return at(places->rounded, offset); }
  std::byte* d_output_t(int64_t offset) const noexcept { return at(places->d_output_t, offset); }
  E* statistic(int64_t offset) const noexcept { return at(places->statistic, offset); }
  E* delta(int64_t offset) const noexcept { return at(places->delta, offset); }
  KeptPairs<E> kept(int64_t offset) const noexcept {
    return {places->kept_pairs.in_or_null(memory, first + offset),
            places->kept_counts.in_or_null(memory, first + offset)};
  }

 private:
  template <class T>
  T* at(const ComponentPlace<T>& place, int64_t offset) const noexcept {
    return place.in(memory, first + offset);
  }
};

// Scratch of the tiles of a work unit, for one key block. The pipeline has two buffers of some.
template <class E>
struct GradientTilePlaces {
  Place<QueryTile<E>> tiles;         // [tiles]
  Place<E> weights, d_weights;       // [tiles][block_keys][queries]
  Place<uint64_t> bits;              // [buffers][tiles][block_keys]: which queries may attend
  Place<E> before;                   // [score functions + 1][block_keys][queries]: compute_scores()
  Place<E> parameter_sums;           // [parameters of a score function][queries]
  Place<E> rows_t;                   // [largest head size][queries]: a tile of output or query
  Place<std::byte> rounded_weights;  // [buffers][tiles][block_keys][queries] of the route's weights
  Place<std::byte> rounded_d_scores;   // the same
  Place<std::byte> d_scores_of_query;  // [buffers][block_keys][queries]: of a tile, for d_query

  void reserve(GradientScratch<E>& scratch) {
    const WantedGradients& wanted = scratch.wanted;
    auto& memory = scratch.worker;
    const int64_t tiles_of_unit = scratch.tiles, scores = scratch.tile_scores();
    const int64_t buffers = scratch.kernels.gradient_stage ? 2 : 1;
    memory.place(tiles, {tiles_of_unit});
    memory.place(weights, {tiles_of_unit, scores});
    memory.place(d_weights, {tiles_of_unit, scores});
    memory.place(bits, {buffers, tiles_of_unit, scratch.tiling.block_keys});
    const auto functions = static_cast<int64_t>(scratch.options.scores.size());
    memory.place_if(functions > 0, before, {functions + 1, scores});
    if (functions > 0 || wanted.normalizer_parameters)
      memory.place(parameter_sums,
                   {std::max(wanted.head_parameter_count, wanted.normalizer_head_parameter_count),
                    scratch.tile});
    const Problem& p = scratch.problem;
    memory.place(rows_t, {std::max(p.head_dim, p.value_dim), scratch.tile});
    const bool rounds = scratch.kernels.route.rounds();
    const int64_t rounded = scores * scratch.weight_bytes();
    memory.place_if(rounds && wanted.value, rounded_weights, {buffers, tiles_of_unit, rounded});
    memory.place_if(rounds && wanted.key, rounded_d_scores, {buffers, tiles_of_unit, rounded});
    if (rounds && wanted.query_sums()) memory.place(d_scores_of_query, {buffers, rounded});
  }
};

// A work unit during a walk.
template <class E>
struct QueryUnit {
  Positions positions;
  int64_t tile_count = 0;
  KeyRange range = {0, 0};  // holds all keys that its queries may attend to
  UnitArrays<E> arrays;
  E* d_query_t;                    // tiles [head_dim][queries]; null: not wanted
  E* d_query_pairs = nullptr;      // [queries][head_dim]: sums that are added pair by pair
  Rows query_rows, d_output_rows;  // [queries, dims] as sums read them; null: not wanted
  Rows position_rows;              // the same for products with key_rows
  // Where biases are added to queries: d_query sums of this walk, from keys and from key_rows
  E *content_sums = nullptr, *position_sums = nullptr;
  // [2][head_dim] of the cell: sums of these over the queries; null: not wanted
  double* query_bias_sums = nullptr;
  E* query_dots = nullptr;  // [queries] d_query . query of the walks; null: not wanted
  Finite query_finite, d_output_finite;
};

}  // namespace rapt

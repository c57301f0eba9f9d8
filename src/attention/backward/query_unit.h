#pragma once
// Queries that the backward pass works on together: what they have in memory, and what a walk over
// keys needs of them.
#include "attention/backward/sparse_pairs.h"

namespace rapt {

// Tiles of a unit of the backward pass at most: of one vector of 4 lanes or more.
inline constexpr int kMostUnitTiles = 16;

// Of which operands a walk makes gradients: d_query (and what is summed per query) or d_key,
// d_value (and what is summed per key), or both at once.
struct Sides {
  bool queries, keys;
};

// What a unit of queries has in memory, from its first query on.
template <class E>
struct UnitArrays {
  std::byte* query_t;  // tiles [head_dim][queries] of the route's elements
  std::byte* changed;  // [queries][head_dim] of the inputs' dtype; where rows change
  std::byte*
      position_t;  // as query_t, of those that meet key_rows; the same where nothing is added
  std::byte* position_query;  // as `changed`, likewise
  KeptPairs<E> kept;          // of the first tile; those of others kKeptPairs per query further
  std::byte*
      prefilter_queries;  // tiles of rounded queries (prefilter.h); where there is a prefilter
  std::byte* d_output_t;  // tiles [value_dim][queries] of the route's elements
  E *statistic, *delta;   // [queries], tiles [delta rows][queries]
};

// Queries with all that the walk needs of them.
template <class E>
struct QueryUnit {
  Positions positions;
  int64_t tile_count = 0;
  KeyRange range = {0, 0};         // no key outside is visible
  const std::byte* d_output_t;     // tiles [value_dim][queries] of the route's elements
  E* d_query_t;                    // tiles [head_dim][queries]; null: not wanted
  E* d_query_pairs = nullptr;      // [queries][head_dim]: the sums of what comes pair by pair
  const E *statistic, *delta;      // [queries], tiles [delta rows][queries]
  Rows query_rows, d_output_rows;  // [queries, dims], as they are summed; null: not wanted
  KeptPairs<E> kept;               // as in UnitArrays
  Rows position_rows;              // of queries that meet key_rows, likewise
  // Where biases are added to queries: sums of d_query in this walk, by keys and by key_rows
  E *content_sums = nullptr, *position_sums = nullptr;
  double* query_bias_sums = nullptr;  // [2][head_dim] of the cell: their sums over queries; or null
  E* query_dots = nullptr;  // [queries] d_query . query of what walks give; null: not wanted
  std::byte *changed = nullptr, *position_query = nullptr;  // as in UnitArrays
  Finite query_finite = Finite::unknown, d_output_finite = Finite::unknown;
};

}  // namespace rapt

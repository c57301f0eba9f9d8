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

// The arrays of a work unit, from its first query on.
template <class E>
struct UnitArrays {
  std::byte* query_t;      // tiles [head_dim][queries] of the route's elements
  std::byte* transformed;  // [queries][head_dim] of the inputs' dtype, if rows are transformed
  std::byte* position_t;   // as query_t, for products with key_rows; query_t where no bias is added
  std::byte* position_query;     // as `transformed`, for position_t
  KeptPairs<E> kept;             // of the first tile; kKeptPairs per query
  std::byte* prefilter_queries;  // tiles of rounded queries (prefilter.h), if there is a prefilter
  std::byte* d_output_t;         // tiles [value_dim][queries] of the route's elements
  E *statistic, *delta;          // [queries], tiles [delta rows][queries]
};

// A work unit during a walk.
template <class E>
struct QueryUnit {
  Positions positions;
  int64_t tile_count = 0;
  KeyRange range = {0, 0};         // holds all keys that its queries may attend to
  const std::byte* d_output_t;     // tiles [value_dim][queries] of the route's elements
  E* d_query_t;                    // tiles [head_dim][queries]; null: not wanted
  E* d_query_pairs = nullptr;      // [queries][head_dim]: sums that are added pair by pair
  const E *statistic, *delta;      // [queries], tiles [delta rows][queries]
  Rows query_rows, d_output_rows;  // [queries, dims] as sums read them; null: not wanted
  KeptPairs<E> kept;               // as in UnitArrays
  Rows position_rows;              // the same for products with key_rows
  // Where biases are added to queries: d_query sums of this walk, from keys and from key_rows
  E *content_sums = nullptr, *position_sums = nullptr;
  // [2][head_dim] of the cell: sums of these over the queries; null: not wanted
  double* query_bias_sums = nullptr;
  E* query_dots = nullptr;  // [queries] d_query . query of the walks; null: not wanted
  std::byte *transformed = nullptr, *position_query = nullptr;  // as in UnitArrays
  Finite query_finite = Finite::unknown, d_output_finite = Finite::unknown;
};

}  // namespace rapt

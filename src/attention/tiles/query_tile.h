#pragma once
// A tile of queries and a block of keys: what the conductor moves about.
#include "attention/tiles/exact_rows.h"
#include "attention/tiles/prefilter.h"

namespace rapt {

// A tile of queries on its way through the keys.
template <class E>
struct QueryTile {
  int vectors = 1;
  int64_t queries = 0;         // padded to whole vectors
  int64_t offset = 0;          // where its queries begin in the unit's scratch
  Positions positions;         // of the real ones, within their sequence
  KeyRange range = {0, 0};     // no key outside is visible
  uint64_t attended = 0;       // bit i: query i has seen a key
  void* query_t = nullptr;     // [head_dim][queries] of the route's elements
  void* position_t = nullptr;  // the same of queries that meet key_rows; often query_t
  RowsAt rows = {};            // of its queries as they are multiplied, where exact_rows.h is used
  uint64_t outside = 0;        // which of them it is needed for
  uint64_t d_output_outside = 0;  // the same of d_output
  PrefilterTile prefilter;
  Tile<E> hooks;
};

// Rows [tile queries] of scratch, one number per query, each used by one step at a time.
enum TileRow : int {
  kBlockMax,         // the largest score of a block
  kFactor,           // by which online softmax rescales what it has summed
  kMultiplier,       // what rows are multiplied by as they are stored
  kExtraMultiplier,  // the same of the extra output
  kStatistic,        // of the rows, or its gradient
  kEntropy,
  kTileRows,
  // The backward pass stores no extra output and no entropy.
  kDots = kExtraMultiplier,  // d_query . query
  kPartialDots = kEntropy    // the same of one part of d_query
};

enum class Finite : uint8_t { unknown, yes, no };

// Keys and values of one block, as the products read them.
struct KeyBlock {
  int64_t begin = 0, end = 0;
  const std::byte* key = nullptr;    // [end - begin, head_dim]
  const std::byte* value = nullptr;  // [end - begin, value_dim]; null: not loaded
  int64_t key_stride = 0, value_stride = 0;
  Finite finite = Finite::unknown;       // are all values?
  BlockBits key_outside, value_outside;  // rows that exact_rows.h is needed for
};

}  // namespace rapt

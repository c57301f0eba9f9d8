#pragma once
// The two operands of a score tile: a query tile and a key block.
#include "attention/tiles/exact_rows.h"
#include "attention/tiles/prefilter.h"

namespace rapt {

// Up to 64 queries of one head, padded to whole vectors, whose scores are computed together.
template <class E>
struct QueryTile {
  int vectors = 1;
  int64_t queries = 0;            // padded to whole vectors
  int64_t offset = 0;             // the place of its first query in the work unit's scratch
  Positions positions;            // of the real queries, within their sequence
  KeyRange range = {0, 0};        // holds all keys that its queries may attend to
  uint64_t attended = 0;          // bit i: query i has attended to a key
  void* query_t = nullptr;        // [head_dim][queries] of the route's elements
  void* position_t = nullptr;     // the same for products with key_rows; often query_t
  RowsAt rows = {};               // its queries before packing, where ExactRows is used
  uint64_t outside = 0;           // bit i: query i needs ExactRows
  uint64_t d_output_outside = 0;  // bit i: row i of d_output needs ExactRows
  uint64_t* unmasked = nullptr;   // [k_len] its unmasked pairs, where KeptScores asks for them
  PrefilterTile prefilter;
  E* output_t = nullptr;  // [value_dim][queries] weights times values, of the forward pass
  Tile<E> hooks;
};

// Scratch rows [tile queries] with one number per query, each used by one step at a time.
enum TileRow : int {
  kBlockMax,    // the largest score of a block
  kFactor,      // the factor with which online softmax rescales the sums so far
  kMultiplier,  // applied to rows when they are stored
  kStatistic,   // the statistic of the rows, or its gradient
  kEntropy,
  kTileRows,
  // The backward pass only.
  kDots = kFactor,         // d_query . query
  kPartialDots = kEntropy  // the same for one part of d_query
};

// Whether rows are finite, found out when it is first asked.
class Finite {
 public:
  // find() returns the answer.
  template <class Find>
  bool known_or(const Find& find) noexcept {
    if (known_ == Known::nothing) known_ = find() ? Known::yes : Known::no;
    return known_ == Known::yes;
  }

 private:
  enum class Known : uint8_t { nothing, yes, no } known_ = Known::nothing;
};

// Keys and values of one block in the form that the products read.
struct KeyBlock {
  int64_t begin = 0, end = 0;
  KeyRange attended = {0, 0};  // no query of the walk attends to others of the block
  KeyRange loaded = {0, 0};    // the rows that are loaded: those, widened to steps of the route
  // Unset where the route reads runs (KeyBlocks::keys_of):
  const std::byte* key = nullptr;    // [end - begin, head_dim]
  const std::byte* value = nullptr;  // [end - begin, value_dim]; null: not loaded
  int64_t key_stride = 0, value_stride = 0;
  Finite finite;                         // of the loaded values
  BlockBits key_outside, value_outside;  // rows that need ExactRows
  // From `begin` on as stored; set by KeyBlocks::load() alone, unless packed per call.
  RowsAt key_rows, value_rows;
};

}  // namespace rapt

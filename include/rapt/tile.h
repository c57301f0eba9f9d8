#pragma once
// A score tile: the argument of the hooks of score functions and normalisers.
//
// Scores are stored as [keys][queries]: queries fill the SIMD lanes, so every number per query
// (maximum, sum, threshold) is a vector element, and no operation is horizontal. Extents are known
// at run time. `queries` is padded to whole vectors; lanes beyond the last query hold zeros on
// input and anything on output.
//
// This file names no instruction set. Hooks are templates over a vector type V of
// src/kernels/simd/, whose element type is V::Element (float or double).
#include <cstdint>

#include "rapt/positions.h"

namespace rapt {

// The candidates of a sparse normaliser: per row, the scores that may still get a weight, in the
// order of their keys. A list has room for one more vector than its capacity.
template <class E>
struct Candidates {
  E* scores = nullptr;        // [queries][stride]
  int32_t* keys = nullptr;    // [queries][stride]
  int32_t* counts = nullptr;  // [queries]
  int32_t* enough = nullptr;  // [queries] if a row has more candidates than this, some are dropped
  int64_t capacity = 0, stride = 0;
  uint64_t open = 0;  // bit i: query i exists and its candidates fit
};

template <class E>
struct Tile {
  E* scores = nullptr;           // [keys][queries] in: scores; out: weights before normalisation
  const E* block_max = nullptr;  // [queries] maximum over `keys`; -inf where all are masked
  E* state = nullptr;            // [N::kStateRows][queries] the normaliser's state per query
  E* factor = nullptr;           // [queries] out: the factor of the output so far
  E* entropy = nullptr;  // [queries] sums of a normaliser with kEntropy; null: not requested
  bool zero = false;     // out: every weight is 0, so the tile's values need no product
  bool rescale = false;  // out: some factor is not 1
  int64_t keys = 0, queries = 0;

  // Scores are in natural units: scale * query . key + bias. A normaliser that declares kTakesLog2
  // gets them multiplied by log2(e) if the call has neither score functions nor a bias. This factor
  // costs nothing, because it is folded into the scale of the queries.
  bool log2_units = false;

  Positions query_positions, key_positions;
  const Head* head =
      nullptr;  // the head of the tile, for parameters per head, and the whole lengths

  Candidates<E> kept;  // sparse normalisers only
};

}  // namespace rapt

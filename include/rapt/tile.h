#pragma once
// What a score or normaliser sees of the kernel: one tile of scores.
//
// Scores lie as [keys][queries]: queries fill the SIMD lanes, so whatever is per query (maximum,
// sum, threshold) is a vector, and there is no horizontal operation. Extents are run-time values;
// `queries` is padded to whole vectors and the lanes beyond the last query hold zeros in and
// anything out.
//
// This file names no instruction set. Hooks are templates over a vector type V of
// src/kernels/simd/, whose element type is V::Element (float or double).
#include <cstdint>

#include "rapt/positions.h"

namespace rapt {

// Where a hook's work may be done. A kernel that overlaps matrix products with vector work (AMX)
// takes `pipeline` hooks into its pipeline and runs `pass` hooks over the finished scores.
enum class Cost : uint8_t { pipeline, pass };

// What a sparse normaliser keeps of each row: the scores that may still get a weight, in the order
// of their keys. Room for a vector lies behind the capacity.
template <class E>
struct Candidates {
  E* scores = nullptr;        // [queries][stride]
  int32_t* keys = nullptr;    // [queries][stride]
  int32_t* counts = nullptr;  // [queries]
  int32_t* enough = nullptr;  // [queries] with more candidates than this, some are dropped
  int64_t capacity = 0, stride = 0;
  uint64_t open = 0;  // bit i: query i is there, and its candidates fit
};

template <class E>
struct Tile {
  E* scores = nullptr;           // [keys][queries] in: scores; out: weights before normalisation
  const E* block_max = nullptr;  // [queries] maximum over `keys`; -inf where none is visible
  E* state = nullptr;            // [N::kStateRows][queries] what the normaliser keeps per query
  E* factor = nullptr;           // [queries] out: what the output collected so far is multiplied by
  E* entropy = nullptr;          // [queries] what a normaliser with kEntropy adds up; null: nothing
  bool zero = false;             // out: every weight is 0, so the tile's values need no product
  bool rescale = false;          // out: some factor is not 1
  int64_t keys = 0, queries = 0;

  // Scores are in natural units: scale * query . key + bias. A normaliser that declares
  // kTakesLog2 gets them multiplied by log2(e) when no score hook and no bias wants to see them;
  // the factor then costs nothing, being folded into the scale of the queries.
  bool log2_units = false;

  Positions query_positions, key_positions;
  const Head* head = nullptr;  // whose tile it is, for parameters per head, and the whole lengths

  Candidates<E> kept;  // sparse normalisers only

  // Whole-row normalisers only.
  E* candidates = nullptr;      // [N::kCandidates][queries] what collect() keeps for solve()
  E* second_weights = nullptr;  // [keys][queries] out: weights of the extra output
};

}  // namespace rapt

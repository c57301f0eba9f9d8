#pragma once
// The prefilter: which scores of a tile may be above a bound of their query, told without computing
// them. Sparse normalisers need few scores of a row; products of rows that are rounded to whole
// numbers of 8 bits take fewer instructions, and the error of each has a bound. What may be above
// is then computed like any other score, to the same bits.
//
// A row x = unit (n + r), unit = max |x_d| / 127, n whole numbers of [-127, 127], r the rest. With
// query q and key k in their units, and |.| the Euclidean norm (Cauchy-Schwarz),
//
//   |q . k - n_q . n_k| <= |q| |r_k| + |r_q| |n_k|
//
// so that the score is not above a bound where n_q . n_k is at most the bound in these units, less
// the right-hand side, and less what rounding the score itself can do.
#include <cstdint>

namespace rapt {

inline constexpr int64_t kPrefilterGroup = 8;  // keys that share a unit: those of a register tile
inline constexpr int64_t kPrefilterDims = 4;   // dims that one instruction takes
inline constexpr int64_t kMostPrefilterDims =
    4096;  // sums of products of 255 and 127 stay below 2^27

// Rows of keys, rounded: n + 128 of [rows][dims], rows and dims padded to groups. A group with a
// number that is not finite, or out of range, has norms of infinity: nothing is told of it.
struct KeyGroup {
  float per_unit;  // 1 / unit
  float norm;      // of n, at least; the largest of the group
  float rest;      // of r, likewise, and what the rounding of a score adds per norm of the query
};

// Queries of a tile, rounded, in its layout.
struct PrefilterQueries {
  int8_t* numbers;  // [dims / kPrefilterDims][queries][kPrefilterDims]
  int32_t* start;   // [queries]: -128 times the sum of n, for keys that are 128 more than n
  float* per_unit;  // [queries] 1 / unit
  float* norm;      // [queries] of q in units, at least
  float* rest;      // [queries] of r, likewise
};

struct PrefilterKernels {
  // Rounds `count` keys, at most a group; the rest of the group is 0.
  void (*round_keys)(const float* rows, int64_t stride, int64_t count, int64_t dims, uint8_t* to,
                     KeyGroup* group) noexcept;
  void (*round_queries)(const float* query_t /* [dims][queries] */, int64_t dims, int64_t queries,
                        const PrefilterQueries& to) noexcept;
  // Which of the keys first, ..., first + count - 1 of the groups may have a score above the bound
  // of a query? For each vector of queries a list, counted from `first`: found [vectors][stride]
  // and how many of them in counts [vectors]. Returns the sum of the counts. Numbers per list that
  // can be written: count, and one more.
  int64_t (*find)(const PrefilterQueries& queries, const float* bounds, int vectors, int64_t dims,
                  const uint8_t* keys, const KeyGroup* groups, int64_t first, int64_t count,
                  int32_t* found, int64_t stride, int32_t* counts) noexcept;
  // The scores [count][queries] of the keys that find() has found, as ProductKernels::scores()
  // makes them; all others are -inf. block_max [queries] = their maximum.
  void (*scores)(const float* query_t, const float* key, int64_t key_stride, int64_t count,
                 int64_t dims, int vectors, const int32_t* found, int64_t stride,
                 const int32_t* counts, float* scores, float* block_max) noexcept;
};

// The prefilter of this CPU, if it goes with the instruction set in use; else null.
const PrefilterKernels* score_prefilter();

}  // namespace rapt

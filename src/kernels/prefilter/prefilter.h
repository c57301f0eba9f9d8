#pragma once
// The prefilter: finds the scores of a tile that may be above a bound of their query, without
// computing them. Sparse normalisers need few scores of a row. Products of rows that are rounded to
// 8-bit integers take fewer instructions, and their error has a bound. Scores that may be above are
// then computed like any other score, to the same bits.
//
// A row is x = unit (n + r), with unit = max |x_d| / 127, n integers in [-127, 127], and r the
// rest. With query q and key k in their units, and |.| the Euclidean norm (Cauchy-Schwarz),
//
//   |q . k - n_q . n_k| <= |q| |r_k| + |r_q| |n_k|
//
// So the score is not above a bound if n_q . n_k is at most the bound in these units, minus the
// right-hand side, and minus the rounding error of the score itself.
#include <cstdint>

namespace rapt {

inline constexpr int64_t kPrefilterGroup =
    8;  // keys that share a unit: as many as in a register tile
inline constexpr int64_t kPrefilterDims = 4;  // dims that one instruction multiplies
inline constexpr int64_t kMostPrefilterDims =
    4096;  // sums of products of 255 and 127 stay below 2^27

// Rounded rows of keys: n + 128 in [rows][dims], with rows and dims padded to groups. A group with
// a number that is not finite, or out of range, has infinite norms, so that its scores are always
// computed.
struct KeyGroup {
  float per_unit;  // 1 / unit
  float norm;      // an upper bound of |n|, for all keys of the group
  float rest;  // an upper bound of |r|, plus the rounding error of a score per norm of the query
};

// The rounded queries of a tile, in the layout of the tile.
struct PrefilterQueries {
  int8_t* numbers;  // [dims / kPrefilterDims][queries][kPrefilterDims]
  int32_t* start;   // [queries]: -128 times the sum of n, for keys that are 128 more than n
  float* per_unit;  // [queries] 1 / unit
  float* norm;      // [queries] an upper bound of |q|, in units
  float* rest;      // [queries] an upper bound of |r|, in units
};

struct PrefilterKernels {
  // Rounds `count` keys, at most a group; the rest of the group is 0.
  void (*round_keys)(const float* rows, int64_t stride, int64_t count, int64_t dims, uint8_t* to,
                     KeyGroup* group) noexcept;
  void (*round_queries)(const float* query_t /* [dims][queries] */, int64_t dims, int64_t queries,
                        const PrefilterQueries& to) noexcept;
  // Finds the keys among first, ..., first + count - 1 of the groups that may have a score above
  // the bound of a query. For each vector of queries it writes a list of keys, counted from
  // `first`, to found [vectors][stride], and its length to counts [vectors]. Returns the sum of the
  // lengths. Up to `count` + 1 numbers may be written per list.
  int64_t (*find)(const PrefilterQueries& queries, const float* bounds, int vectors, int64_t dims,
                  const uint8_t* keys, const KeyGroup* groups, int64_t first, int64_t count,
                  int32_t* found, int64_t stride, int32_t* counts) noexcept;
  // The scores [count][queries] of the keys that find() has found, as ProductKernels::scores()
  // makes them; all others are -inf. block_max [queries] = their maximum.
  void (*scores)(const float* query_t, const float* key, int64_t key_stride, int64_t count,
                 int64_t dims, int vectors, const int32_t* found, int64_t stride,
                 const int32_t* counts, float* scores, float* block_max) noexcept;
};

// The prefilter of this CPU, if the instruction set in use supports it; else null.
const PrefilterKernels* score_prefilter();

}  // namespace rapt

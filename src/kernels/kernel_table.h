#pragma once
// The whole interface between the portable library and the kernels of one instruction set: tables
// of functions, each of which works on a tile or a block, so that a call through a pointer costs
// nothing beside the work. The loop over tiles is portable (src/attention/).
//
// E is the type in which is computed, float or double; inputs and outputs are stored as E or, for
// float, in 16 bits. Lanes are queries: a tile is `queries` = lanes * vectors wide, vectors from 1
// to max_vectors, at most 64 (a mask word). Kernels check nothing and are noexcept.
#include <cstdint>

#include "rapt/normalizer/normalizer.h"
#include "rapt/score/score.h"
#include "rapt/state.h"
#include "rapt/tile.h"

namespace rapt {

inline constexpr int kMaxVectors = 4;
inline constexpr int kMaxTileQueries = 64;
inline constexpr int kStorageTypes = 4;  // the first of DType: f32, f64, bf16, f16

// The two matrix products, for tiles of a fixed number of vectors, over operands as a route has
// prepared them. Strides count the route's elements.
template <class E>
struct ProductKernels {
  // scores [keys][queries] = key query_t; block_max [queries] = its maximum over the keys.
  void (*scores)(const void* query_t, const void* key, int64_t key_stride, int64_t keys,
                 int64_t head_dim, E factor, E* scores, E* block_max) noexcept;
  // output_t [value_dim][queries] = rescale * output_t + value^T weights; rescale null: 1.
  void (*output)(const void* weights, const void* value, int64_t value_stride, int64_t keys,
                 int64_t value_dim, const E* rescale, E* output_t) noexcept;
};

// Rows of E, dense along their dimensions.
template <class E>
struct DenseRows {
  const E* data;
  int64_t stride;
};

// Three pieces of work that do not wait for each other, of three tiles and blocks that follow one
// another: the scores of the next, the weights of this one, the output of the one before. All mean
// what ProductKernels, NormalizerKernels::apply and RouteKernels::round_weights do, to the bit; but
// in a row with a NaN among its weights, which is NaN by their sum, a rounded NaN may be a number.
// Scores in log2 units, which no hook changes, are multiplied by their factor as they become
// weights: to do it before would be to load and to store them once more.
template <class E>
struct StageScores {
  const void* query_t;
  const void* key;
  int64_t key_stride, keys, head_dim;
  E factor;
  bool log2_units;  // then scores and block_max are left to StageWeights to be multiplied
  E* scores;
  E* block_max;
};
template <class E>
struct StageWeights {
  Tile<E>* tile;
  E factor;       // of scores and block_max, if they have log2 units; above 0
  void* rounded;  // the weights, as the output takes them; the tile's scores stay what they are
};
template <class E>
struct StageOutput {
  const void* rounded;
  const void* value;
  int64_t value_stride, keys, value_dim;
  const E* rescale;
  E* output_t;
};
// Any of the three may be null. The scores of the next tile and of this one can share a place.
template <class E>
using Stage = void (*)(const StageScores<E>* next, const StageWeights<E>* now,
                       const StageOutput<E>* before) noexcept;

// Where the gradients of a tile's pairs come from and go to. Null: not wanted. Without d_key and
// d_query nothing is read but d_output.
template <class E>
struct SparseGradients {
  DenseRows<E> query, d_output;  // of the tile's first query
  DenseRows<E> key, value;       // of the tile's first key
  int64_t head_dim, value_dim, queries;
  const E* delta;      // [queries]
  bool numbers;        // is what they give to the gradients of numbers wanted?
  E *d_key, *d_value;  // of the tile's first key
  int64_t d_key_stride, d_value_stride;
  E* d_query;  // [queries, head_dim], dense
};

// Products of which only few pairs have a part (kernels/vector/sparse.simd.h).
template <class E>
struct SparseKernels {
  // column[d * step] += sum_c weights[c] * rows[keys[c]][d].
  void (*add_rows)(const DenseRows<E>& rows, const int32_t* keys, const E* weights, int64_t count,
                   int64_t dims, E* column, int64_t step) noexcept;
  // sums [4][queries] += sum u and sum u dP of the pairs and, if numbers are wanted, sum c and sum
  // c dP.
  void (*add_slopes)(const SparsePair<E>* pairs, int64_t count, const SparseGradients<E>& of,
                     E* sums) noexcept;
  void (*add_gradients)(const SparsePair<E>* pairs, int64_t count,
                        const SparseGradients<E>& of) noexcept;
};

// Queries of a tile whose weights (d_scores) meet rows of d_output (query).
template <class E>
struct GradientSpan {
  const void* weights;   // [keys][queries] of the route's weights
  int64_t queries;       // of the tile, padded
  const void* rows;      // [count, dims] by pack_values, or where they lie
  int64_t row_stride;    // of `rows`
  int64_t count;         // queries that there are
  const uint64_t* bits;  // [keys]: which pairs are allowed; null: all
};

// The sums over queries, d_key and d_value, over operands as a route has prepared them.
template <class E>
struct KeyGradientKernels {
  // gradient [keys, dims], rows `stride` apart, += the sum over all spans of weights^T rows.
  void (*add)(const GradientSpan<E>* spans, int64_t span_count, int64_t keys, int64_t dims,
              E* gradient, int64_t stride) noexcept;
  // The same where a row may not be finite: excluded pairs contribute nothing at all. Slow.
  void (*add_of_bits)(const GradientSpan<E>* spans, int64_t span_count, int64_t keys, int64_t dims,
                      E* gradient, int64_t stride) noexcept;
};

// The same three of the backward pass, where a tile that meets a block has two products before its
// vector work, which makes rounded operands of them, and three sums behind it. All mean what
// ProductKernels, NormalizerKernels::backward, DropoutKernels::keep, RouteKernels::round_weights
// and round_for_keys, and KeyGradientKernels::add do, to the bit.
template <class E>
struct StageDots {
  const void* columns;  // [dims][queries], by pack_queries
  const void* rows;     // [keys, dims], by pack_keys
  int64_t row_stride, dims;
  E* dots;  // [keys, to whole steps][queries] = rows columns, without a factor
};
template <class E>
struct StageProducts {
  StageDots<E> scores, d_weights;
  int64_t keys;
};
template <class E>
struct StageGradients {
  const E *scores, *d_weights;  // [keys, to whole steps][queries], as StageDots has made them
  E factor;                     // of the scores, log2 e included
  const E *statistic, *delta;   // [queries]
  const uint64_t* bits;         // [keys]: of other pairs all is 0; null: of none
  int64_t keys;
  // [keys][queries], rounded: for the sums over queries, and for that over keys. Null: not wanted.
  void *weights, *d_scores, *d_scores_of_query;
};
template <class E>
struct StageKeySums {
  const GradientSpan<E>* spans;  // [span_count], whose bits do not matter
  int64_t span_count;
  int64_t keys, dims;
  E* gradient;  // [keys, dims], rows `stride` apart
  int64_t stride;
  int64_t begin, end;  // which of its panels, of a step of keys and of dims, row by row
};
template <class E>
struct StageSums {
  StageOutput<E> d_query;  // its output_t is null: not wanted
  StageKeySums<E> d_value, d_key;
};
// Any of the three may be null. The dots of the next tile and of this one can share their places.
template <class E>
using GradientStage = void (*)(const StageProducts<E>* next, const StageGradients<E>* now,
                               const StageSums<E>* before) noexcept;

// A route: how the inputs of one storage type come to the products. There are three kinds.
//
//   fma    operands are E: what is stored as E and dense is read where it lies, anything else is
//          converted, block by block. The factor (scale, log2 e) is multiplied into the queries.
//   dot    bf16 in pairs, for instructions that add two products at once: dims of a score in pairs,
//          keys of an output in pairs, queries of the gradient of a key in pairs. The factor is
//          applied to the scores.
//   tiles  bf16, and f32 and f16 as sums of bf16, for registers of 16 rows (tile_packing.simd.h):
//          dims, keys and queries by 32. The factor is applied to the scores.
//
// Rows that are multiplied one at a time (key in a score, value in a d_weight) are prepared by
// pack_keys; rows that are summed up by pack_values, where their sums have a column per query
// (value in an output, key in a d_query), or by pack_rows, where they have a row per key (query in
// a d_key, d_output in a d_value).
template <class E>
struct RouteKernels {
  const char* kernel;  // the kernel class, for plan()
  int step;            // dims, keys or queries that one multiplication takes; a power of two
  int element_size;    // bytes of an element of query_t, key and value as the products read them
  int weight_size;     // bytes of a weight as they read it, which may have more parts
  bool keys_in_place, values_in_place;  // may rows of dense elements be read where they lie?
  const ProductKernels<E>* products;    // [kMaxVectors], index vectors - 1; null: no such tiles
  int grain;                            // vectors of which a tile has a multiple; a power of two
  int long_vectors;                     // the width that is fastest for long sequences
  // In the order of the catalogue, if the route has its own; null: the table's.
  const NormalizerKernels<E>* normalizers = nullptr;

  // query_t: factor * query^T (dot: query^T, in pairs); lanes beyond `rows` become 0.
  void (*pack_queries)(const void* query, int64_t row_stride, int64_t dim_stride, int64_t rows,
                       int64_t head_dim, E factor, int64_t queries, void* query_t) noexcept;
  // Rows of `dims` elements, made what the products read; the stride of the result is `dims`
  // rounded up to the step. Values of the dot route are pairs of rows.
  void (*pack_keys)(const void* rows, int64_t row_stride, int64_t dim_stride, int64_t count,
                    int64_t dims, void* packed) noexcept;
  void (*pack_values)(const void* rows, int64_t row_stride, int64_t dim_stride, int64_t count,
                      int64_t dims, void* packed) noexcept;
  void (*pack_rows)(const void* rows, int64_t row_stride, int64_t dim_stride, int64_t count,
                    int64_t dims, void* packed) noexcept;
  // The weights as the output product takes them; null: as they are.
  void (*round_weights)(const E* weights, int64_t keys, int64_t queries,
                        void* rounded) noexcept = nullptr;
  // Weights (d_scores) as the sums over queries take them, likewise.
  void (*round_for_keys)(const E* weights, int64_t keys, int64_t queries,
                         void* rounded) noexcept = nullptr;
  // As ProductKernels::output, but pairs (query, key) whose bit is clear contribute nothing at all,
  // even where the value is not finite (0 * NaN = NaN). Slow; for tiles that see such a value.
  void (*output_of_bits)(const void* weights, const uint64_t* bits, const void* value,
                         int64_t value_stride, int64_t keys, int64_t value_dim, const E* rescale,
                         int64_t queries, E* output_t) noexcept;
  // Are all finite, of `count` rows as pack_values or pack_rows left them?
  bool (*all_finite)(const void* value, int64_t value_stride, int64_t count, int64_t dims) noexcept;
  KeyGradientKernels<E> key_gradients;

  // Elements that the route cannot multiply, for which it packs 0 (attention/tiles/exact_rows.h).
  // Bit i of bits [count / 64, rounded up] becomes: does row i have one? Null: there are none.
  void (*find_outside)(const void* rows, int64_t row_stride, int64_t dim_stride, int64_t count,
                       int64_t dims, uint64_t* bits) noexcept = nullptr;
  // outside [count, dims], dense: these elements, others 0.
  void (*take_outside)(const void* rows, int64_t row_stride, int64_t dim_stride, int64_t count,
                       int64_t dims, E* outside) noexcept = nullptr;

  // In the order of the catalogue: products of the tiles around a tile while its weights are made
  // by a normaliser, where these can overlap; null: they cannot.
  const Stage<E>* stages = nullptr;
  // The same of the backward pass.
  const GradientStage<E>* gradient_stages = nullptr;

  // What a thread does before its first product and behind its last; null: nothing. What a hook of
  // the caller's sets up in between it must leave as it was.
  struct alignas(64) ThreadState {
    unsigned char bytes[64];
  };
  void (*begin)(ThreadState& before) noexcept = nullptr;
  void (*end)(const ThreadState& before) noexcept = nullptr;

  // The widest tile, in vectors.
  int widest() const noexcept {
    int vectors = kMaxVectors;
    while (!products[vectors - 1].scores) --vectors;
    return vectors;
  }
  // Are weights and d_scores rounded to operands of the route?
  bool rounds() const noexcept { return round_weights != nullptr; }
};

// What the backward pass does with a tile (kernels/vector/gradients.simd.h).
template <class E>
struct GradientKernels {
  // sums [queries] += sum over `count` of a b, both [count][queries].
  void (*add_dots)(const E* a, const E* b, int64_t count, int64_t queries, E* sums) noexcept;
  // bias [rows, keys] += d_scores^T; a stride of 0 sums over that dimension. Not both are 0.
  void (*add_bias_gradient)(const E* d_scores /* [keys][queries] */, int64_t keys, int64_t queries,
                            int64_t rows, E* bias, int64_t row_stride, int64_t key_stride) noexcept;
  // sums [queries] += the sum of a tile over its keys.
  void (*add_sums)(const E* tile /* [keys][queries] */, int64_t keys, int64_t queries,
                   E* sums) noexcept;
  double (*sum_of_tile)(const E* tile, int64_t count) noexcept;
  // out [count, dims] = factor * from, rows of `from` `stride` apart; out may be `from`. By DType.
  void (*store_key_rows[kStorageTypes])(const E* from, int64_t stride, int64_t count, int64_t dims,
                                        E factor, void* out, int64_t row_stride,
                                        int64_t dim_stride) noexcept;
};

// What happens to weights and scores that a call returns beside the output.
template <class E>
struct CaptureKernels {
  // Takes the scores of a block into the lists of the best of each query, largest first; of equal
  // ones the earlier key stays first. A key is written as the bits of an integer of E's size.
  void (*keep_top)(const E* scores /* [keys][queries] */, int64_t keys, int64_t queries,
                   int64_t first_key, int64_t top_k, E* best /* [top_k][queries] */,
                   E* best_keys /* [top_k][queries] */) noexcept;
  // The same for long lists, tile.kept, which are unsorted (long_lists.simd.h); bounds [queries]
  // are -inf at first. Lists have room for 2 top_k scores, or for all keys.
  void (*append_to_long)(Tile<E> tile, int64_t top_k, E* bounds) noexcept;
  // The long list of query i in the order of keep_top, at most top_k scores. Room for as many, and
  // their keys, at `spare`.
  void (*settle_long)(Tile<E> tile, int64_t i, int64_t top_k, E* bounds, E* spare,
                      int32_t* spare_keys) noexcept;
  // sums [keys][lanes] += weights, vector by vector.
  void (*add_received)(const E* weights /* [keys][queries] */, int64_t keys, int64_t queries,
                       E* sums) noexcept;
  // cells [rows][columns], rows `stride` apart, take the weights of a block, which are lost: their
  // sum, or their maximum. Cell (a, b) has the queries and keys before row_end[a] and column_end[b]
  // that no cell before it has.
  void (*pool)(E* weights /* [keys][queries] */, int64_t queries, const int* column_end,
               int64_t columns, const int* row_end, int64_t rows, bool maximum, double* cells,
               int64_t stride) noexcept;
};

// Two dimensions of a row that turn together.
struct DimPair {
  int64_t first, second;
};

// What happens to rows of queries and keys before they are multiplied
// (attention/rows/row_transformer.h), on [dims][rows], padded to whole vectors of rows.
template <class E>
struct RowTransformKernels {
  // (a, b) -> (a cos - b sin, b cos + a sin) for each pair of dimensions, by its own angle in each
  // row.
  void (*rotate)(E* rows_t, const DimPair* pairs, int64_t count, const E* cos_t /* [count][rows] */,
                 const E* sin_t, int64_t rows) noexcept;
  // rows_t = factor rows_t + other_factor other_t, by factors [rows].
  void (*combine)(E* rows_t, const E* other_t, int64_t dims, const E* factor, const E* other_factor,
                  int64_t rows) noexcept;
};

// Dropout (rapt/dropout.h) of the weights of a tile.
template <class E>
struct DropoutKernels {
  // Bit i of bits[j]: is the pair (first_query + i, first_key + j) of the flat `head` kept? It is
  // where its number is at least `threshold`. Bits from `queries` on are 0.
  void (*draw)(uint64_t seed, uint64_t threshold, int64_t head, int64_t first_query,
               int64_t first_key, int64_t keys, int64_t queries,
               uint64_t* bits /* [keys] */) noexcept;
  // tile = factor * tile where the bit is set, 0 elsewhere, be it NaN.
  void (*keep)(E* tile /* [keys][queries] */, const uint64_t* bits, int64_t keys, int64_t queries,
               E factor) noexcept;
};

// Tiles by key and tiles by distance (kernels/vector/relative.simd.h).
template <class E>
struct RelativeKernels {
  // scores [keys][queries] += the numbers of the pairs; block_max = their maximum. The pair of key
  // j and query i stands in row j + queries - 1 - i; `lanes` rows more can be read.
  void (*add_by_distance)(const E* by_distance /* [keys + queries - 1][queries] */, int64_t keys,
                          int64_t queries, E* scores, E* block_max) noexcept;
  // The other way; 0 where there is no pair.
  void (*take_by_distance)(const E* tile /* [keys][queries] */, int64_t keys, int64_t queries,
                           E* by_distance) noexcept;
  // scores += row, where all distances share one; block_max += row.
  void (*add_row)(const E* row /* [queries] */, int64_t keys, int64_t queries, E* scores,
                  E* block_max) noexcept;
};

template <class E>
struct KernelTable {
  const char* isa;
  int lanes;
  int max_vectors;                           // the widest tile of the fma routes
  const RouteKernels<E>* const* fma;         // [kStorageTypes], by DType; null: E cannot hold it
  const RouteKernels<E>* const* tiles;       // likewise; null: the set has no tile registers
  const RouteKernels<E>* const* fast_tiles;  // the same for Precision::fast
  const NormalizerKernels<E>* normalizers;   // in the order of the catalogue
  const ScoreKernels<E>* scores;             // in the order of the catalogue
  CaptureKernels<E> captures;
  GradientKernels<E> gradients;
  DropoutKernels<E> dropout;
  RowTransformKernels<E> row_transforms;
  SparseKernels<E> sparse;
  RelativeKernels<E> relative;

  // Sets scores to -inf where bit i of rows[j] is clear; block_max becomes the maximum of the rest.
  void (*exclude)(E* scores, const uint64_t* rows, int64_t keys, int64_t queries,
                  E* block_max) noexcept;
  // block_max = the maximum of the scores over the keys.
  void (*find_max)(const E* scores, int64_t keys, int64_t queries, E* block_max) noexcept;
  // scores += bias^T; block_max becomes the maximum over the keys. A bias of -inf excludes the pair
  // whatever its score: its bit is cleared, and the result is true. By the DType of the bias.
  bool (*add_bias[kStorageTypes])(E* scores, const void* bias /* [rows, keys] */,
                                  int64_t row_stride, int64_t key_stride, int64_t keys,
                                  int64_t rows, int64_t queries, uint64_t* bits /* [keys] */,
                                  E* block_max) noexcept;
  // out [rows, dims] = (tile_t * factor)^T where bit i of `present` is set, else 0; factor null: 1.
  // By the DType of `out`.
  void (*store_rows[kStorageTypes])(const E* tile_t /* [dims][queries] */, int64_t dims,
                                    int64_t queries, const E* factor /* [queries] */,
                                    uint64_t present, int64_t rows, void* out, int64_t row_stride,
                                    int64_t dim_stride) noexcept;
  // Runs 2 * lanes * 24 operations per iteration: the rate no f32 kernel can beat.
  E (*fma_loop)(int64_t iterations) noexcept;
  // Four products of tiles per iteration, of 2 * 16 * 16 * 32 operations each; null: no tiles.
  void (*tile_loop)(int64_t iterations) noexcept;
};

struct IsaTables {
  const KernelTable<float>* f32;
  const KernelTable<double>* f64;
};

// The tables in use: the highest instruction set that this CPU has and RAPT_ISA allows.
// Throws Error(unknown_name, unsupported).
template <class E>
const KernelTable<E>& kernels();
template <>
const KernelTable<float>& kernels<float>();
template <>
const KernelTable<double>& kernels<double>();

// The dot route for bf16, if this CPU has the instruction, it is the faster way to multiply (or
// RAPT_BF16 asks for it), and the instruction set in use goes with it; else null.
const RouteKernels<float>* bf16_dot_route();

}  // namespace rapt

#pragma once
// The interface between the portable library and the kernels of one instruction set: tables of
// functions. Each works on a tile or a block, so that the call through a pointer costs nothing
// beside the work. Into this room come rows, tiles and hooks; out of it go products, weights and
// sums. It may use the interfaces of variants, never a concrete mask (dev/check_arrows.py).
//
// E is the type of the computation, float or double. Inputs and outputs are stored as E or, for
// float, in 16 bits. Lanes are queries: a tile is `queries` = lanes * vectors wide, with 1 to
// max_vectors vectors and at most 64 queries (a mask word). Kernels check nothing and are noexcept.
#include <cstdint>

#include "kernels/layer_products.h"
#include "kernels/linear_kernels.h"
#include "kernels/matrix_kernels.h"
#include "rapt/normalizer/normalizer.h"
#include "rapt/score/score.h"
#include "rapt/state.h"
#include "rapt/tile.h"

namespace rapt {

inline constexpr int kMaxVectors = 4;
inline constexpr int kMaxTileQueries = 64;
inline constexpr int kFewWidths = 4;  // routes for at most 1, 2, 4 and 8 queries

// The two matrix products for tiles of a fixed number of vectors. A route packs the operands;
// strides count its elements.
template <class E>
struct ProductKernels {
  // scores [keys][queries] = key query_t; block_max [queries] = its maximum over the keys.
  void (*scores)(const void* query_t, const void* key, int64_t key_stride, int64_t keys,
                 int64_t head_dim, E factor, E* scores, E* block_max) noexcept;
  // output_t [value_dim][queries] = rescale * output_t + value^T weights; rescale null: 1.
  void (*output)(const void* weights, const void* value, int64_t value_stride, int64_t keys,
                 int64_t value_dim, const E* rescale, E* output_t) noexcept;
};

// Rows of keys or values, `stride` elements apart. The kernels of few queries take a block of rows
// as an array of runs of kRunRows rows, so that pages of a cache are read where they lie.
// kRunsAhead more runs follow in the array: those that will be read next, for prefetching.
struct RowRun {
  const void* rows;
  int64_t stride;
};
inline constexpr int64_t kRunRows = 16, kRunsAhead = 4;

// Rows of E, dense along their dimensions.
template <class E>
struct DenseRows {
  const E* data;
  int64_t stride;
};

// A stage of the pipeline has the independent work of three successive score tiles: the scores of
// the next, the weights of this one, the output of the one before. The bits are those of
// ProductKernels, NormalizerKernels::apply and RouteKernels::round_weights. One exception: in a row
// with a NaN among its weights, a rounded NaN may be a number; the row is NaN through the sum of
// its weights. Scores in log2 units are multiplied by their factor as they become weights, which
// saves a pass over them.
template <class E>
struct StageScores {
  const void* query_t;
  const void* key;
  int64_t key_stride, keys, head_dim;
  E factor;
  bool log2_units;  // then StageWeights multiplies scores and block_max by the factor
  E* scores;
  E* block_max;
};
template <class E>
struct StageWeights {
  Tile<E>* tile;
  E factor;       // of scores and block_max, if they have log2 units; above 0
  void* rounded;  // the weights as operands of the output; the tile's scores stay unchanged
};
template <class E>
struct StageOutput {
  const void* rounded;
  const void* value;
  int64_t value_stride, keys, value_dim;
  const E* rescale;
  E* output_t;
};
// Each of the three may be null. The scores of the next tile and of this one can share their
// memory.
template <class E>
using Stage = void (*)(const StageScores<E>* next, const StageWeights<E>* now,
                       const StageOutput<E>* before) noexcept;

// Inputs and outputs of the gradients of a tile's pairs. Null: not requested. Without d_key and
// d_query only d_output is read.
template <class E>
struct SparseGradients {
  DenseRows<E> query, d_output;  // of the tile's first query
  DenseRows<E> key, value;       // of the tile's first key
  int64_t head_dim, value_dim, queries;
  const E* delta;      // [queries]
  bool numbers;        // are gradients of learned parameters requested?
  E *d_key, *d_value;  // of the tile's first key
  int64_t d_key_stride, d_value_stride;
  E* d_query;  // [queries, head_dim], dense
};

// Products in which few pairs have a weight (kernels/vector/sparse.simd.h).
template <class E>
struct SparseKernels {
  // column[d * step] += sum_c weights[c] * rows[keys[c]][d].
  void (*add_rows)(const DenseRows<E>& rows, const int32_t* keys, const E* weights, int64_t count,
                   int64_t dims, E* column, int64_t step) noexcept;
  // sums [4][queries] += sum u and sum u dP of the pairs and, for learned parameters, sum c and sum
  // c dP.
  void (*add_slopes)(const SparsePair<E>* pairs, int64_t count, const SparseGradients<E>& of,
                     E* sums) noexcept;
  void (*add_gradients)(const SparsePair<E>* pairs, int64_t count,
                        const SparseGradients<E>& of) noexcept;
};

// Queries of a tile: their weights (or d_scores) and their rows of d_output (or query).
template <class E>
struct GradientSpan {
  const void* weights;   // [keys][queries] of the route's weights
  int64_t queries;       // of the tile, padded
  const void* rows;      // [count, dims] by pack_values, or in place
  int64_t row_stride;    // of `rows`
  int64_t count;         // existing queries
  const uint64_t* bits;  // [keys]: unmasked pairs; null: all
};

// The sums over queries, d_key and d_value, of operands that a route has packed.
template <class E>
struct KeyGradientKernels {
  // gradient [keys, dims], rows `stride` apart, += the sum over all spans of weights^T rows.
  void (*add)(const GradientSpan<E>* spans, int64_t span_count, int64_t keys, int64_t dims,
              E* gradient, int64_t stride) noexcept;
  // The same where a row may not be finite: masked pairs contribute nothing. Slow.
  void (*add_of_bits)(const GradientSpan<E>* spans, int64_t span_count, int64_t keys, int64_t dims,
                      E* gradient, int64_t stride) noexcept;
};

// A stage of the backward pipeline. A score tile has two products (scores and d_weights), then
// vector work that makes rounded operands of them, then three sums. The bits are those of
// ProductKernels, NormalizerKernels::backward, DropoutKernels::keep, RouteKernels::round_weights
// and round_for_keys, and KeyGradientKernels::add.
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
  const E *scores, *d_weights;  // [keys, to whole steps][queries], from StageDots
  E factor;                     // of the scores, log2 e included
  const E *statistic, *delta;   // [queries]
  const uint64_t* bits;         // [keys]: all results of other pairs are 0; null: no pair is masked
  int64_t keys;
  // [keys][queries], rounded, for the sums over queries and over keys. Null: not requested.
  void *weights, *d_scores, *d_scores_of_query;
};
template <class E>
struct StageKeySums {
  const GradientSpan<E>* spans;  // [span_count]; their bits are ignored
  int64_t span_count;
  int64_t keys, dims;
  E* gradient;  // [keys, dims], rows `stride` apart
  int64_t stride;
  int64_t begin, end;  // which panels (a step of keys by a step of dims), counted row by row
};
template <class E>
struct StageSums {
  StageOutput<E> d_query;  // output_t null: not requested
  StageKeySums<E> d_value, d_key;
};
// Each of the three may be null. The dots of the next tile and of this one can share their memory.
template <class E>
using GradientStage = void (*)(const StageProducts<E>* next, const StageGradients<E>* now,
                               const StageSums<E>* before) noexcept;

// A route: how inputs of one storage type reach the products. There are four kinds.
//
//   fma    operands are E. Dense rows of E are read in place, others are converted block by block.
//          The factor (scale, log2 e) is multiplied into the queries.
//   few    the same products and bits for tiles of a few queries, which read rows of all storage
//          types in place, if their dimensions lie side by side (few_queries.simd.h).
//   dot    bf16 in pairs, for instructions that add two products at once: dims of a score in pairs,
//          keys of an output in pairs, queries of the gradient of a key in pairs. The factor is
//          applied to the scores.
//   tiles  bf16, and f32 and f16 as sums of bf16, for registers of 16 rows (tile_packing.simd.h):
//          dims, keys and queries by 32. The factor is applied to the scores.
//
// pack_keys packs rows that are multiplied one at a time (keys for scores, values for d_weights).
// pack_values packs rows whose sums have a column per query (values for the output, keys for
// d_query). pack_rows packs rows whose sums have a row per key (queries for d_key, d_output for
// d_value).
template <class E>
struct RouteKernels {
  const char* kernel;  // the kernel class, for plan()
  int step;            // dims, keys or queries that one multiplication takes; a power of two
  int element_size;    // bytes of an element of key, value and (but for few) query_t as read
  int weight_size;     // bytes of a weight as the products read it; it may have several parts
  bool keys_in_place, values_in_place;  // are rows of dense elements read in place?
  // Are keys and values given to the products, and to output_of_bits, as an array of RowRun?
  bool reads_runs = false;
  const ProductKernels<E>* products;  // [kMaxVectors], index vectors - 1; null: no such tiles
  int grain;                          // the vectors of a tile are a multiple of it; a power of two
  int long_vectors;                   // the fastest width for long sequences, in vectors
  // The route's own normaliser hooks, in the order of the catalogue; null: the table's.
  const NormalizerKernels<E>* normalizers = nullptr;

  // query_t: factor * query^T (dot: query^T, in pairs); lanes beyond `rows` become 0.
  void (*pack_queries)(const void* query, int64_t row_stride, int64_t dim_stride, int64_t rows,
                       int64_t head_dim, E factor, int64_t queries, void* query_t) noexcept;
  // Packs rows of `dims` elements; the stride of the result is `dims` rounded up to the step.
  // Values of the dot route are pairs of rows.
  void (*pack_keys)(const void* rows, int64_t row_stride, int64_t dim_stride, int64_t count,
                    int64_t dims, void* packed) noexcept;
  void (*pack_values)(const void* rows, int64_t row_stride, int64_t dim_stride, int64_t count,
                      int64_t dims, void* packed) noexcept;
  void (*pack_rows)(const void* rows, int64_t row_stride, int64_t dim_stride, int64_t count,
                    int64_t dims, void* packed) noexcept;
  // Rounds weights to operands of the output product; null: weights are used as they are.
  void (*round_weights)(const E* weights, int64_t keys, int64_t queries,
                        void* rounded) noexcept = nullptr;
  // Rounds weights (d_scores) to operands of the sums over queries; null as above.
  void (*round_for_keys)(const E* weights, int64_t keys, int64_t queries,
                         void* rounded) noexcept = nullptr;
  // As ProductKernels::output, but pairs (query, key) whose bit is clear contribute nothing, even
  // where the value is not finite (0 * NaN = NaN). Slow; for tiles with such a value.
  void (*output_of_bits)(const void* weights, const uint64_t* bits, const void* value,
                         int64_t value_stride, int64_t keys, int64_t value_dim, const E* rescale,
                         int64_t queries, E* output_t) noexcept;
  // Are all elements of `count` rows finite, as pack_values or pack_rows stored them?
  bool (*all_finite)(const void* value, int64_t value_stride, int64_t count, int64_t dims) noexcept;
  KeyGradientKernels<E> key_gradients;

  // Finds rows with elements that the route cannot multiply and packs as 0 (exact_rows.h): bit i of
  // bits [count / 64, rounded up] is set for such a row i. Null: the route multiplies all elements.
  void (*find_outside)(const void* rows, int64_t row_stride, int64_t dim_stride, int64_t count,
                       int64_t dims, uint64_t* bits) noexcept = nullptr;
  // outside [count, dims], dense: these elements; all others 0.
  void (*take_outside)(const void* rows, int64_t row_stride, int64_t dim_stride, int64_t count,
                       int64_t dims, E* outside) noexcept = nullptr;

  // Stages of the forward pipeline per normaliser, in the order of the catalogue; null: the route
  // has no pipeline.
  const Stage<E>* stages = nullptr;
  // The same of the backward pass.
  const GradientStage<E>* gradient_stages = nullptr;

  // Called by a thread before its first product and after its last; null: nothing to do. `end`
  // restores the state that `begin` has saved.
  struct alignas(64) ThreadState {
    unsigned char bytes[64];
  };
  void (*begin)(ThreadState& before) noexcept = nullptr;
  void (*end)(const ThreadState& before) noexcept = nullptr;

  // Null: products of layers do not take the route.
  const LayerProducts<E>* layers = nullptr;

  // The widest tile, in vectors.
  int widest() const noexcept {
    int vectors = kMaxVectors;
    while (!products[vectors - 1].scores) --vectors;
    return vectors;
  }
  // Are weights and d_scores rounded to operands of the route?
  bool rounds() const noexcept { return round_weights != nullptr; }
};

// Operations of the backward pass on a tile (kernels/vector/gradients.simd.h).
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

// Operations for captures: results beside the output (kernels/vector/captures.simd.h).
template <class E>
struct CaptureKernels {
  // Inserts the scores of a block into each query's list of largest scores, largest first; among
  // equal scores the earlier key is first. A key is stored as the bits of an integer of E's size.
  void (*keep_top)(const E* scores /* [keys][queries] */, int64_t keys, int64_t queries,
                   int64_t first_key, int64_t top_k, E* best /* [top_k][queries] */,
                   E* best_keys /* [top_k][queries] */) noexcept;
  // The same for long lists, tile.kept, which are unsorted (long_lists.simd.h). bounds [queries]
  // start at -inf. Lists have room for 2 top_k scores, or for all keys.
  void (*append_to_long)(Tile<E> tile, int64_t top_k, E* bounds) noexcept;
  // Sorts the long list of query i like keep_top and cuts it to top_k scores. `spare`,
  // `spare_keys`: room for top_k elements.
  void (*settle_long)(Tile<E> tile, int64_t i, int64_t top_k, E* bounds, E* spare,
                      int32_t* spare_keys) noexcept;
  // sums [keys][lanes] += weights, vector by vector.
  void (*add_received)(const E* weights /* [keys][queries] */, int64_t keys, int64_t queries,
                       E* sums) noexcept;
  // Adds the weights of a block to cells [rows][columns], rows `stride` apart, as sums or maxima,
  // and overwrites the weights. Cell (a, b) covers the queries up to row_end[a] and the keys up to
  // column_end[b] that no earlier cell covers.
  void (*pool)(E* weights /* [keys][queries] */, int64_t queries, const int* column_end,
               int64_t columns, const int* row_end, int64_t rows, bool maximum, double* cells,
               int64_t stride) noexcept;
};

// A pair of dimensions of a rotary embedding.
struct DimPair {
  int64_t first, second;
};

// The arithmetic of row transforms (attention/rows/row_transformer.h) on [dims][rows], padded to
// whole vectors of rows.
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
  int max_vectors;                    // the widest tile of the fma routes
  const RouteKernels<E>* const* fma;  // [kStorageTypes], by DType; null: E cannot hold it
  // [kStorageTypes][kFewWidths]; null: as for fma, or tiles of this width are not faster
  const RouteKernels<E>* const* const* few_queries;
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
  MatrixKernels<E> matrices;

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
  LinearKernels<E> linear;
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

// Are the vectors of the set in use those of AVX-512? Kernels for its extensions go with such sets.
bool uses_avx512();

// The dot route for bf16, if this CPU has the instruction, it is the faster way to multiply (or
// RAPT_BF16 asks for it), and the instruction set in use goes with it; else null.
const RouteKernels<float>* bf16_dot_route();

}  // namespace rapt

#pragma once
// The whole interface between the portable library and the kernels of one instruction set: tables
// of functions, each of which works on a tile or a block, so that a call through a pointer costs
// nothing beside the work. The loop over tiles is portable (src/attention/forward.cpp).
//
// E is the element type. Lanes are queries: a tile is `queries` = lanes * vectors wide, vectors
// from 1 to max_vectors, at most 64 (a mask word). Kernels check nothing and are noexcept.
#include <cstdint>

#include "rapt/normalizer/normalizer.h"
#include "rapt/state.h"
#include "rapt/tile.h"

namespace rapt {

inline constexpr int kMaxVectors = 3;

// The two matrix products, for tiles of a fixed number of vectors.
template <class E>
struct ProductKernels {
  // scores [keys][queries] = key query_t; block_max [queries] = its maximum over the keys.
  void (*scores)(const E* query_t /* [head_dim][queries] */, const E* key /* [keys, head_dim] */,
                 int64_t key_stride, int64_t keys, int64_t head_dim, E* scores,
                 E* block_max) noexcept;
  // output_t = factor * output_t + value^T weights; factor null: 1.
  void (*output)(const E* weights /* [keys][queries] */, const E* value /* [keys, value_dim] */,
                 int64_t value_stride, int64_t keys, int64_t value_dim, const E* factor,
                 E* output_t /* [value_dim][queries] */) noexcept;
};

// A normaliser's hooks (include/rapt/normalizer/normalizer.h) for one vector type.
template <class E>
struct NormalizerKernels {
  Statistic statistic;
  bool whole_row, extra, takes_log2;
  int state_rows, candidates;
  using Hook = void (*)(const void* normalizer, Tile<E>& tile) noexcept;
  Hook begin, collect, apply, weights;  // collect and solve: whole-row normalisers only
  bool (*solve)(const void* normalizer, Tile<E>& tile) noexcept;
  void (*finish)(const void* normalizer, Tile<E>& tile, Finish<E> result) noexcept;
};

// A score's hook (DESIGN.md, "Variants"): scores in natural units, in place.
template <class E>
struct ScoreKernels {
  void (*apply)(const void* score, Tile<E>& tile) noexcept;
};

template <class E>
struct KernelTable {
  const char* isa;
  int lanes;
  int max_vectors;                          // the widest tile that pays
  const ProductKernels<E>* products;        // [kMaxVectors], index vectors - 1
  const NormalizerKernels<E>* normalizers;  // in the order of the catalogue
  const ScoreKernels<E>* scores;            // in the order of the catalogue

  // query_t [head_dim][queries] = factor * query^T; lanes beyond `rows` become 0.
  void (*pack_queries)(const E* query, int64_t row_stride, int64_t dim_stride, int64_t rows,
                       int64_t head_dim, E factor, int64_t queries, E* query_t) noexcept;
  // Sets scores to -inf where bit i of rows[j] is clear; block_max becomes the maximum of the rest.
  void (*exclude)(E* scores, const uint64_t* rows, int64_t keys, int64_t queries,
                  E* block_max) noexcept;
  // scores += bias^T. A bias of -inf excludes the pair whatever its score: the bit is cleared.
  void (*add_bias)(E* scores, const E* bias /* [rows, keys] */, int64_t row_stride,
                   int64_t key_stride, int64_t keys, int64_t rows, int64_t queries,
                   uint64_t* bits /* [keys] */) noexcept;
  // As ProductKernels::output, but pairs whose bit is clear contribute nothing at all, even where
  // the value is not finite (0 * NaN = NaN). Slow; for tiles that see such a value.
  void (*output_of_bits)(const E* weights, const uint64_t* bits, const E* value,
                         int64_t value_stride, int64_t keys, int64_t value_dim, const E* factor,
                         int64_t queries, E* output_t) noexcept;
  bool (*all_finite)(const E* rows /* [count, dims] */, int64_t row_stride, int64_t count,
                     int64_t dims) noexcept;
  // out [rows, dims] = (tile_t * factor)^T where bit i of `present` is set, else 0; factor null: 1.
  void (*store_rows)(const E* tile_t /* [dims][queries] */, int64_t dims, int64_t queries,
                     const E* factor /* [queries] */, uint64_t present, int64_t rows, E* out,
                     int64_t row_stride, int64_t dim_stride) noexcept;
  // Runs 2 * lanes * 24 operations per iteration: the rate no f32 kernel can beat.
  E (*fma_loop)(int64_t iterations) noexcept;
};

struct IsaTables {
  const KernelTable<float>* f32;
  const KernelTable<double>* f64;  // null where the set has none: the scalar one is taken
};

// The tables in use: the highest instruction set that this CPU has and RAPT_ISA allows.
// Throws Error(unknown_name, unsupported).
template <class E>
const KernelTable<E>& kernels();
template <>
const KernelTable<float>& kernels<float>();
template <>
const KernelTable<double>& kernels<double>();

}  // namespace rapt

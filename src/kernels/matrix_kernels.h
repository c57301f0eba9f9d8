#pragma once
// The kernels of the matrix products of layers (rapt/product.h), part of the kernel table.
#include <cstdint>

#include "rapt/activation.h"

namespace rapt {

inline constexpr int kStorageTypes = 4;  // the first of DType: f32, f64, bf16, f16

// Where a block of a matrix product goes (rapt/product.h): out = activation(sums + bias).
template <class E>
struct ProductStore {
  const E* bias = nullptr;  // [columns]; null: none
  Activation activation = Activation::none;
  bool add = false;        // add to what `out` holds?
  void* before = nullptr;  // sums + bias, of the DType of `out`; null: not stored
  int64_t before_row_stride = 0, before_column_stride = 1;
  void* out = nullptr;
  int64_t row_stride = 0, column_stride = 1;
};

// Where a block of terms of a matrix product goes: out = sums + the block + bias, or out + that.
template <class E>
struct TileStore {
  const E* sums = nullptr;  // of the blocks before; null: 0. It may be `out`
  int64_t sums_stride = 0;
  const E* bias = nullptr;  // [columns]; null: none
  bool add = false;         // add to what `out` holds?
  E* out = nullptr;
  int64_t stride = 0;
};

// Tiles of the left side, tile_stride apart. Packed: [terms][tile_rows], and row_stride is 1. In
// place: rows with terms side by side, row_stride apart, which may not be 1.
template <class E>
struct LeftTiles {
  const E* data;
  int64_t row_stride, tile_stride;
};

// The matrix products of layers: with both sides packed (kernels/vector/packed_products.simd.h),
// with few rows on the left (kernels/vector/few_rows.simd.h), and what stands around them
// (kernels/vector/matrix_products.simd.h).
template <class E>
struct MatrixKernels {
  int tile_rows;      // rows of a tile of the left side
  int panel_vectors;  // the width of a panel of the right side
  // Packs the left side [rows, terms] in tiles [terms][tile_rows]; the last may lack rows. Writes
  // whole vectors: up to a vector behind the last tile. By the DType of the left side.
  void (*pack_left[kStorageTypes])(const void* left, int64_t row_stride, int64_t term_stride,
                                   int64_t rows, int64_t terms, E* packed) noexcept;
  // Packs the right side [terms, columns] in panels [terms][panel_vectors * lanes]; the last has as
  // many whole vectors as it needs. By the DType of the right side.
  void (*pack_right[kStorageTypes])(const void* right, int64_t column_stride, int64_t term_stride,
                                    int64_t columns, int64_t terms, E* packed) noexcept;
  // Multiplies `rows` rows by a panel [terms][columns] of whole vectors. The block is summed first.
  // In place: whole tiles only.
  void (*multiply_panel)(const LeftTiles<E>& left, const E* right, int64_t terms, int64_t rows,
                         int64_t columns, const TileStore<E>& to) noexcept;
  // sums [rows] += the sums of packed rows over their terms.
  void (*add_left_sums)(const E* packed, int64_t terms, int64_t rows, E* sums) noexcept;
  // out [rows, columns] = x [rows, dims] weight [columns, dims]^T for few rows, in sums of `block`
  // terms (kernels/vector/few_rows.simd.h). Dense rows. `in_memory`: the weight is assumed to be in
  // no cache. By the DType of the weight.
  void (*few_rows[kStorageTypes])(const E* x, int64_t x_stride, int64_t rows, const void* weight,
                                  int64_t row_stride, int64_t columns, int64_t dims, int64_t block,
                                  bool in_memory, E* out, int64_t out_stride) noexcept;
  // The same by a weight [dims, columns], whose terms are dense and `term_stride` apart. Sums of a
  // block go through `block_sums` [rows, columns], out_stride apart. Both are written in whole
  // vectors.
  void (*few_rows_by_terms[kStorageTypes])(const E* x, int64_t x_stride, int64_t rows,
                                           const void* weight, int64_t term_stride, int64_t columns,
                                           int64_t dims, int64_t block, E* block_sums, E* out,
                                           int64_t out_stride) noexcept;
  // Stores sums [rows, columns]. By the DType of the output.
  void (*store[kStorageTypes])(const E* sums, int64_t sums_stride, int64_t rows, int64_t columns,
                               const ProductStore<E>& to) noexcept;
  // sums [columns] += the sums of `count` rows, dense along their columns.
  void (*add_column_sums)(const E* rows, int64_t row_stride, int64_t count, int64_t columns,
                          E* sums) noexcept;
};

}  // namespace rapt

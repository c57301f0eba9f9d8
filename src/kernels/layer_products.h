#pragma once
// The products of layers (rapt/product.h) by an instruction that multiplies bf16, as part of a
// route (kernel_table.h). Both sides are packed, to whole steps of rows, columns and terms.
#include <cstdint>

namespace rapt {

template <class E>
struct LayerProducts {
  int64_t row_step, column_step;  // of the left and of the right side
  int64_t width;                  // columns of a panel of the right side, whole steps
  // Packs the left side [rows, terms].
  void (*pack_left)(const void* left, int64_t row_stride, int64_t term_stride, int64_t rows,
                    int64_t terms, void* packed) noexcept;
  // Packs the right side [terms, columns] in panels of `width` columns, one after the other; the
  // last has as many steps as it needs.
  void (*pack_right)(const void* right, int64_t column_stride, int64_t term_stride, int64_t columns,
                     int64_t terms, void* packed) noexcept;
  // sums [rows][columns] += the product of a left side and a panel. `columns`: whole steps.
  void (*add_product)(const void* left, const void* panel, int64_t terms, int64_t rows,
                      int64_t columns, E* sums) noexcept;
  // out [rows, columns] = x [rows, dims] weight [columns, dims]^T for few rows, with dense rows on
  // both sides, which are read where they lie: in sums of `block` terms, with the bits of the
  // above. Elements behind the last row of x up to the next step are 0. Null: few rows are packed,
  // too. Only of a route without find_outside().
  void (*few_rows)(const void* x, int64_t x_stride, int64_t rows, const void* weight,
                   int64_t row_stride, int64_t columns, int64_t dims, int64_t block, E* out,
                   int64_t out_stride) noexcept = nullptr;
  // The same for a weight [dims, columns] with dense rows, `term_stride` apart. `block_sums` and
  // `out` have rows of whole panels, `out_stride` apart. Null: few rows are packed, too.
  void (*few_rows_by_terms)(const void* x, int64_t x_stride, int64_t rows, const void* weight,
                            int64_t term_stride, int64_t columns, int64_t dims, int64_t block,
                            E* block_sums, E* out, int64_t out_stride) noexcept = nullptr;
};

}  // namespace rapt

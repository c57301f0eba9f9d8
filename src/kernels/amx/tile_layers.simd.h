#pragma once
// The products of layers (rapt/product.h) by tile registers:
//
//   sums [rows][32 columns] += left [rows, terms] panel [terms, 32 columns]
//
// as scores are (tile_products.simd.h): A holds rows of the left side, B columns of the right side,
// both by panels of 32 terms, [rows or columns / 32][terms / 32][parts][2 tiles]. Terms that a side
// lacks, up to whole panels, are 0.
#include "kernels/amx/tile_products.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// Packs rows as A or, if kColumns, columns as B: across the terms where they lie side by side, and
// along them where the rows (columns) do.
template <class S, bool kColumns>
RAPT_NOINLINE void tile_pack_side(const void* from, int64_t outer_stride, int64_t term_stride,
                                  int64_t outer, int64_t terms, void* packed) noexcept {
  if (outer_stride != 1 || term_stride == 1)
    return pack_over_dims<S, kColumns>(from, outer_stride, term_stride, outer, terms, outer,
                                       packed);
  const auto* strip = static_cast<const typename S::Stored*>(from);
  auto* to = static_cast<char*>(packed);
  for (int64_t i = 0; i < outer; i += kStep, to += panels(terms) * kRowPanels<S>)
    pack_over_rows<S, !kColumns, Pairs::neighbours>(strip + i, term_stride, 1, terms,
                                                    outer - i < kStep ? outer - i : kStep, to);
}

// The first `rows` rows of sums += those of a product.
RAPT_INLINE void add_to_sums(const float* product /* [32][32] */, int64_t rows, float* sums) {
  for (int64_t x = 0; x < rows * kStep; x += F::kLanes)
    store(sums + x, add(F::load(sums + x), F::load(product + x)));
}

template <class S>
RAPT_NOINLINE void tile_add_product(const void* left, const void* panel, int64_t terms,
                                    int64_t rows, int64_t /* 32 columns */, float* sums) noexcept {
  const int64_t depth = panels(terms);
  const auto* const columns = static_cast<const char*>(panel);
  const auto* row = static_cast<const char*>(left);
  alignas(64) float product[kStep * kStep];
  // A panel's product is stored between the first products of the next panel.
  StoreAndClear before;
  Nothing nothing;
  for (int64_t i = 0; i < rows; i += kStep, row += depth * kRowPanels<S>) {
    add_dots<S, Load::near>(row, columns, depth, before, nothing);
    if (before.to) add_to_sums(product, kStep, sums + (i - kStep) * kStep);
    before = StoreAndClear(product);
  }
  before.store_all();
  const int64_t last = (rows - 1) & -kStep;
  add_to_sums(product, rows - last, sums + last * kStep);
}

template <class S>
constexpr LayerProducts<float> kTileLayers = {.row_step = kStep,
                                              .column_step = kStep,
                                              .width = kStep,
                                              .pack_left = tile_pack_side<S, false>,
                                              .pack_right = tile_pack_side<S, true>,
                                              .add_product = tile_add_product<S>};

}  // namespace
}  // namespace rapt::RAPT_ISA

#pragma once
// A checked product and how it is cut.
//
//   out [rows, columns] = sum over k of left(row, k) right(k, column)
//
//   form              left        right       k
//   forward           x           weight^T    in_features
//   input_gradient    d_y         weight      out_features
//   weight_gradient   d_y^T       x           rows of x
//
// A task computes a piece of the output: some rows by the columns of a group. It packs the right
// side in panels [k][width], then goes through its rows, kRowBlock at a time, which stay in the L2:
// for each block of kSumBlock terms it packs the left side in tiles, then goes through all panels.
// The last block of terms is stored straight to the output where nothing but bias and sum is left.
//
// A route (product_route.h) multiplies bf16. It packs both sides in its own way, and all of its
// sums are made before they are stored. If some rows or columns have elements that the route cannot
// multiply (kernel_table.h, find_outside), a second pass over the piece makes their sums by FMA,
// and each pass stores its own. If all rows or all columns have such, FMA makes the only pass.
#include <algorithm>

#include "base/scratch_planner.h"
#include "kernels/kernel_table.h"
#include "products/matrix.h"
#include "rapt/context.h"
#include "threads/workers.h"

namespace rapt {

enum class ProductForm { forward, input_gradient, weight_gradient };

// The terms of one chain of FMAs. A panel of 16 columns is then half an L1, and adding a block to
// the sums before it costs 1 % of its products.
inline constexpr int64_t kSumBlock = 256;

// Rows of the left side that pass the panels of a group together: 96 KiB of f32 in the L2. A
// multiple of the rows of every register tile (6 and 12).
inline constexpr int64_t kRowBlock = 96;

// Columns of a group. The left side is packed once per group, which costs as much as 11 of its
// columns (AVX2, AMD Zen 3).
inline constexpr int64_t kGroupColumns = 384;

// With so few columns in a group the left side is read in place where it can be: packing it costs
// as much as 11 columns, reading it in place one in 30.
inline constexpr int64_t kColumnsInPlace = 128;

// Fewer where rows of the weight are read in place: groups are all that can be shared among
// threads. Fewer by routes, too: what they pack of the weight for a block of terms stays in the L2.
inline constexpr int64_t kFewRowsGroupColumns = 128;

// The most columns of a group where terms of the weight are read in place: its sums of a row, of
// all terms and of a block, are 32 KiB of f32, and of four rows stay in the L2.
inline constexpr int64_t kTermsGroupColumns = 4096;

// The most terms that are packed at once: 3 MiB of f32. Longer sums are made in chunks,
// between which the sums of a piece are kept.
inline constexpr int64_t kSumChunk = 2048;

// The most rows of a piece of a longer sum: 1.4 MiB of f32. Each piece packs the right side
// once more, which costs 1 to 2 % of the products at this length.
inline constexpr int64_t kPieceRows = 960;

// With so few rows the weight is read in place: packing it would take longer than the products.
inline constexpr int64_t kFewRows = 8;

inline int64_t ceil_div(int64_t a, int64_t b) {  // cannot overflow
  return a / b + (a % b != 0);
}
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// A right side that was packed before the call (PackedLayout).
template <class E>
struct PackedRight {
  E* panels = nullptr;  // null: each task packs its own
  std::byte* of_route = nullptr;
  uint64_t* outside = nullptr;
};

// How a product reads its right side.
enum class RightSide : uint8_t {
  per_task,        // each task packs its group
  rows_in_place,   // few rows by a weight whose rows are dense
  terms_in_place,  // few rows by a weight whose terms are dense
  packed,          // packed before the call
};

template <class E>
struct ProductCall {
  ProductForm form = ProductForm::forward;
  const KernelTable<E>& table;
  Matrix left, right, out;  // as the caller stores them: right is the weight, or x
  int64_t sum = 0;          // terms of a sum
  ProductStore<E> store;    // bias, activation; the addresses are those of `out`
  Matrix before;            // before the activation; data null: not stored
  Matrix bias;              // [1, columns], of any dtype; data null: none
  Matrix column_sums;       // [1, rows]: d_bias; data null: not requested
  PackedRight<E> packed;
  const RouteKernels<E>* route = nullptr;  // null: FMA

  RightSide right_side() const noexcept {
    if (packed.panels) return RightSide::packed;
    if (form != ProductForm::forward || out.rows > kFewRows) return RightSide::per_task;
    if (right.column_stride == 1 || right.columns <= 1)
      return !route || route->layers->few_rows ? RightSide::rows_in_place : RightSide::per_task;
    const bool by_terms = right.row_stride == 1 && (!route || route->layers->few_rows_by_terms);
    return by_terms ? RightSide::terms_in_place : RightSide::per_task;
  }
};

// How a product is cut; see above. Nothing here changes a bit of the result.
struct ProductCut {
  int64_t width = 1;  // columns of a panel of FMA, whole vectors
  int64_t group = 1;  // columns of a group, whole panels
  int64_t groups = 0;
  int64_t piece = 1;  // rows
  int64_t pieces = 0;
  int64_t chunk = kSumChunk;  // the terms that a task packs at once
  int workers = 1;
  bool to_executor = false;
  size_t bytes = kScratchAlignment - 1;  // of the workspace
};

// The same with the scratch of a worker.
template <class E>
struct ProductLayout : ProductCut {
  Place<E> sums;            // [rows of a piece or of a block][group]
  Place<E> block_sums;      // the same of a block of terms, with terms_in_place
  Place<std::byte> panels;  // [terms][group] of either pass, if a task packs its own
  Place<std::byte> left;    // rows of the left side, packed or dense
  Place<E> row;             // the bias of a group, or the column sums of a piece
  // One bit per row of a piece and column of a group: does it have elements that the route cannot
  // multiply? If there is a route with such elements.
  Place<uint64_t> outside_rows, outside_columns;
  RepeatedMemory workers_memory;
};

// The cut for these sizes. `route`: of the call or, if the right side was packed before, for which
// it was packed. Throws Error(argument, overflow).
template <class E>
ProductLayout<E> cut_product(ProductForm form, RightSide right, int64_t rows, int64_t columns,
                             int64_t sum, const Context& context,
                             const RouteKernels<E>* route = nullptr);

// Words of the bits of a group's columns.
inline int64_t words_of(const ProductCut& cut) { return ceil_div(cut.group, 64); }

// A right side that is packed before the call. Each array holds one group after the other, each as
// a task packs it.
template <class E>
struct PackedLayout {
  CallPlace<E> panels;            // [groups][terms][group], for FMA
  CallPlace<std::byte> of_route;  // the same for the route; absent: it has none
  CallPlace<uint64_t> outside;    // [groups][words]: as find_outside() finds columns; may be absent
  size_t bytes;
};

// The layout for `sum` terms, of which `cut` says the groups. Throws Error(overflow).
template <class E>
PackedLayout<E> packed_layout(const ProductCut& cut, int64_t sum, const RouteKernels<E>* route);

// Where the parts of the layout lie.
template <class E>
PackedRight<E> packed_right(const PackedLayout<E>& layout, std::byte* memory) noexcept {
  return {layout.panels.in(memory), layout.of_route.in_or_null(memory),
          layout.outside.in_or_null(memory)};
}

// Computes a product with scratch of `bytes`. Throws Error(cancelled).
template <class E>
void run_product(const ProductCall<E>& call, const ProductLayout<E>& cut, const Context& context,
                 std::byte* scratch);

// Packs the whole right side for FMA and for the route of the call. `memory`: aligned to 64 bytes.
template <class E>
void pack_right(const ProductCall<E>& call, const ProductLayout<E>& cut,
                const PackedLayout<E>& layout, std::byte* memory) noexcept;

}  // namespace rapt

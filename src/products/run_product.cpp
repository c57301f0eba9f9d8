// The loops of a product over pieces, blocks of terms, rows and panels.
#include <bit>

#include "products/product_call.h"
#include "threads/task_run.h"

namespace rapt {
namespace {

// Larger weights of few rows are assumed to be in no cache: a model's other weights are read
// between two uses. A weight that is used again and again stays in the L3, where another order is
// faster for one row; docs/decisions/products_without_blas.md has both.
constexpr int64_t kWeightInCaches = 4 << 20;

template <class E>
class PieceOfProduct {
 public:
  PieceOfProduct(const ProductCall<E>& call, const ProductLayout<E>& cut,
                 std::byte* scratch) noexcept
      : call_(call), cut_(cut), table_(call.table), side_(call.right_side()), scratch_(scratch) {}

  // Packs the columns of a group for all terms, by FMA and by the route.
  void pack_group(int64_t group, const PackedRight<E>& packed) noexcept {
    first_column_ = group * cut_.group;
    columns_ = std::min(cut_.group, call_.out.columns - first_column_);
    pack_group_to(reinterpret_cast<std::byte*>(packed.panels));
    if (!call_.route) return;
    by_ = call_.route;
    pack_group_to(packed.of_route);
    if (by_->find_outside) find_columns_outside(packed.outside + group * words_of(cut_));
  }

  void run(int64_t task) noexcept {
    first_column_ = task / cut_.pieces * cut_.group;
    columns_ = std::min(cut_.group, call_.out.columns - first_column_);
    first_row_ = task % cut_.pieces * cut_.piece;
    rows_ = std::min(cut_.piece, call_.out.rows - first_row_);
    if (side_ == RightSide::rows_in_place || side_ == RightSide::terms_in_place) {
      multiply_few_rows();
    } else if (call_.route) {
      multiply_by_route();
    } else {
      multiply();
    }
    if (call_.column_sums.data && first_column_ == 0) store_column_sums();
  }

 private:
  E* scratch(const Place<E>& place) const noexcept { return place.in(scratch_); }
  const RouteKernels<E>& fma(DType dtype) const noexcept {
    return *table_.fma[static_cast<int>(dtype)];
  }

  // A panel of the group: its first column, its columns, and these in whole vectors or steps.
  struct Panel {
    int64_t first, columns, padded;
  };
  int64_t width() const noexcept { return by_ ? by_->layers->width : cut_.width; }
  Panel panel(int64_t first) const noexcept {
    const int64_t columns = std::min(width(), columns_ - first);
    return {first, columns, round_up(columns, by_ ? by_->layers->column_step : table_.lanes)};
  }

  // Bytes of a column of a packed right side, for so many terms.
  int64_t column_bytes(int64_t terms) const noexcept {
    return by_ ? round_up(terms, by_->step) * by_->element_size
               : terms * static_cast<int64_t>(sizeof(E));
  }

  // A side of the product as the caller stores it: rows of the left one, or columns of the right
  // one, and their terms.
  struct Side {
    const void* data;
    int64_t outer_stride, term_stride;
    DType dtype;
  };
  Side left_side(int64_t row, int64_t term) const noexcept {
    const Matrix& left = call_.left;
    if (call_.form == ProductForm::weight_gradient)
      return {left.at(term, row), left.column_stride, left.row_stride, left.dtype};
    return {left.at(row, term), left.row_stride, left.column_stride, left.dtype};
  }
  Side right_side(int64_t term) const noexcept {
    const Matrix& right = call_.right;
    if (call_.form == ProductForm::forward)  // its rows are columns here
      return {right.at(first_column_, term), right.row_stride, right.column_stride, right.dtype};
    return {right.at(term, first_column_), right.column_stride, right.row_stride, right.dtype};
  }

  // Rows of the piece.
  struct Rows {
    int64_t first, count;
  };

  // Terms of the sums.
  struct Terms {
    int64_t first, count;
  };

  // The pass of the route; then, for sums with elements that it cannot multiply, that of FMA.
  void multiply_by_route() noexcept {
    const RouteKernels<E>& route = *call_.route;
    const Outside outside = route.find_outside ? find_outside() : Outside::none;
    if (outside == Outside::all) return multiply();
    typename RouteKernels<E>::ThreadState before;
    if (route.begin) route.begin(before);
    by_ = &route;
    stored_ = outside == Outside::none ? Stored::all : Stored::inside;
    multiply();
    if (route.end) route.end(before);
    if (outside == Outside::none) return;
    by_ = nullptr;
    stored_ = Stored::outside;
    multiply();
  }

  // Which sums of a piece have elements that the route cannot multiply.
  enum class Outside : uint8_t { none, some, all };

  // Marks the rows and columns with such elements.
  Outside find_outside() const noexcept {
    uint64_t* const rows = cut_.outside_rows.in(scratch_);
    uint64_t* const columns = cut_.outside_columns.in(scratch_);
    const Side left = left_side(first_row_, 0);
    call_.route->find_outside(left.data, left.outer_stride, left.term_stride, rows_, call_.sum,
                              rows);
    if (call_.packed.panels)
      std::copy_n(call_.packed.outside + first_column_ / cut_.group * words_of(cut_),
                  ceil_div(columns_, 64), columns);
    else
      find_columns_outside(columns);
    const int64_t marked_rows = count_bits(rows, rows_);
    const int64_t marked_columns = count_bits(columns, columns_);
    if (marked_rows == rows_ || marked_columns == columns_) return Outside::all;
    return marked_rows + marked_columns > 0 ? Outside::some : Outside::none;
  }
  static int64_t count_bits(const uint64_t* words, int64_t count) noexcept {
    int64_t bits = 0;
    for (int64_t i = 0; i < ceil_div(count, 64); ++i) bits += std::popcount(words[i]);
    return bits;
  }
  void find_columns_outside(uint64_t* bits) const noexcept {
    const Side right = right_side(0);
    call_.route->find_outside(right.data, right.outer_stride, right.term_stride, columns_,
                              call_.sum, bits);
  }

  // Does this pass store the sum of a row of the piece and a column of the group?
  bool stores(int64_t row, int64_t column) const noexcept {
    const uint64_t* const rows = cut_.outside_rows.in(scratch_);
    const uint64_t* const columns = cut_.outside_columns.in(scratch_);
    const bool outside =
        ((rows[row / 64] >> (row % 64)) | (columns[column / 64] >> (column % 64))) & 1;
    return outside == (stored_ == Stored::outside);
  }

  void multiply() noexcept {
    E* const column_sums = scratch(cut_.row);
    if (call_.column_sums.data) std::fill_n(column_sums, rows_, E(0));
    load_bias();
    int64_t begin = 0;
    do {
      const int64_t end = std::min(begin + cut_.chunk, call_.sum);
      if (!call_.packed.panels)
        for (int64_t k = begin; k < end; k += kSumBlock)
          pack(k, std::min(kSumBlock, end - k),
               cut_.panels.in(scratch_) + cut_.group * column_bytes(k - begin));
      for (int64_t row = 0; row < rows_; row += kRowBlock) {
        const Rows rows{row, std::min(kRowBlock, rows_ - row)};
        E* const sums = scratch(cut_.sums) + (call_.sum > cut_.chunk ? row * cut_.group : 0);
        if (call_.sum == 0) std::fill_n(sums, rows.count * cut_.group, E(0));
        for (int64_t k = begin; k < end; k += kSumBlock)
          multiply(rows, {k, std::min(kSumBlock, end - k)}, begin, sums);
        if (end == call_.sum) store(rows, sums);
      }
      begin = end;
    } while (begin < call_.sum);
  }

  // Packs a block of terms of the right side, panel after panel, each [terms][padded columns].
  void pack(int64_t k, int64_t terms, std::byte* panels) const noexcept {
    const Side right = right_side(k);
    if (by_)
      by_->layers->pack_right(right.data, right.outer_stride, right.term_stride, columns_, terms,
                              panels);
    else
      table_.matrices.pack_right[static_cast<int>(right.dtype)](right.data, right.outer_stride,
                                                                right.term_stride, columns_, terms,
                                                                reinterpret_cast<E*>(panels));
  }
  // All terms of a group, behind those of the groups before it.
  void pack_group_to(std::byte* packed) const noexcept {
    std::byte* const group = packed + first_column_ * column_bytes(call_.sum);
    for (int64_t k = 0; k < call_.sum; k += kSumBlock)
      pack(k, std::min(kSumBlock, call_.sum - k), group + cut_.group * column_bytes(k));
  }

  // Is the left side read in place, but for rows that fill no tile? Rows one element apart would
  // look packed to the kernel.
  bool left_in_place() const noexcept {
    const Matrix& left = call_.left;
    return cut_.group <= kColumnsInPlace && call_.form != ProductForm::weight_gradient &&
           left.dtype == dtype_of<E>() && left.column_stride == 1 && left.row_stride != 1;
  }

  // Packs rows of the left side for a block of terms.
  LeftTiles<E> packed_left(const Rows& rows, const Terms& terms) const noexcept {
    const Side left = left_side(first_row_ + rows.first, terms.first);
    E* const tiles = left_scratch();
    table_.matrices.pack_left[static_cast<int>(left.dtype)](
        left.data, left.outer_stride, left.term_stride, rows.count, terms.count, tiles);
    return {tiles, 1, terms.count * table_.matrices.tile_rows};
  }
  E* left_scratch() const noexcept { return reinterpret_cast<E*>(cut_.left.in(scratch_)); }

  // Does the last block of terms go straight to the output?
  bool stores_directly(const Panel& p) const noexcept {
    return !by_ && stored_ == Stored::all && p.columns == p.padded &&
           call_.store.activation == Activation::none && !call_.before.data &&
           call_.out.dtype == dtype_of<E>() && call_.out.column_stride == 1 && call_.sum > 0;
  }

  // Where a block of terms of a panel goes: the sums [rows][padded columns], or the output.
  TileStore<E> store_of(const Rows& rows, const Terms& terms, const Panel& p,
                        E* sums) const noexcept {
    TileStore<E> to;
    to.sums = terms.first > 0 ? sums : nullptr;
    to.sums_stride = p.padded;
    to.out = sums, to.stride = p.padded;
    if (terms.first + terms.count < call_.sum || !stores_directly(p)) return to;
    if (call_.bias.data) to.bias = scratch(cut_.row) + p.first;
    to.add = call_.store.add;
    to.out = reinterpret_cast<E*>(call_.out.at(first_row_ + rows.first, first_column_ + p.first));
    to.stride = call_.out.row_stride;
    return to;
  }

  // Rows of a row block by a block of terms of all panels. `block`: the rows whose sums lie
  // together, panel after panel, each [rows][padded columns].
  void multiply_panels(const LeftTiles<E>& left, const Rows& block, const Rows& rows,
                       const Terms& terms, const E* panels, E* sums) const noexcept {
    for (int64_t first = 0; first < columns_; first += cut_.width) {
      const Panel p = panel(first);
      E* const to = sums + first * block.count + (rows.first - block.first) * p.padded;
      table_.matrices.multiply_panel(left, panels + first * terms.count, terms.count, rows.count,
                                     p.padded, store_of(rows, terms, p, to));
    }
  }

  // sums += a block of terms.
  void multiply(const Rows& rows, const Terms& terms, int64_t chunk_begin, E* sums) const noexcept {
    const std::byte* const packed =
        by_ ? call_.packed.of_route : reinterpret_cast<const std::byte*>(call_.packed.panels);
    const std::byte* const panels =
        packed ? packed + first_column_ * column_bytes(call_.sum) +
                     cut_.group * column_bytes(terms.first)
               : cut_.panels.in(scratch_) + cut_.group * column_bytes(terms.first - chunk_begin);
    if (by_)
      add_products(rows, terms, panels, sums);
    else
      multiply_tiles(rows, terms, reinterpret_cast<const E*>(panels), sums);
  }

  void multiply_tiles(const Rows& rows, const Terms& terms, const E* panels,
                      E* sums) const noexcept {
    Rows to_pack = rows;
    if (left_in_place()) {
      const Matrix& left = call_.left;
      const int64_t tile = table_.matrices.tile_rows;
      const Rows whole{rows.first, rows.count / tile * tile};
      const auto* data = reinterpret_cast<const E*>(left.at(first_row_ + rows.first, terms.first));
      multiply_panels({data, left.row_stride, tile * left.row_stride}, rows, whole, terms, panels,
                      sums);
      to_pack = {rows.first + whole.count, rows.count - whole.count};
    }
    if (to_pack.count == 0) return;
    const LeftTiles<E> left = packed_left(to_pack, terms);
    if (call_.column_sums.data && first_column_ == 0) add_column_sums(left, rows, terms);
    multiply_panels(left, rows, to_pack, terms, panels, sums);
  }

  // The same by the route.
  void add_products(const Rows& rows, const Terms& terms, const std::byte* panels,
                    E* sums) const noexcept {
    if (call_.column_sums.data && first_column_ == 0)
      add_column_sums(packed_left(rows, terms), rows, terms);
    const LayerProducts<E>& route = *by_->layers;
    const Side left = left_side(first_row_ + rows.first, terms.first);
    route.pack_left(left.data, left.outer_stride, left.term_stride, rows.count, terms.count,
                    left_scratch());
    for (int64_t first = 0; first < columns_; first += width()) {
      const Panel p = panel(first);
      E* const to = sums + first * rows.count;
      if (terms.first == 0) std::fill_n(to, rows.count * p.padded, E(0));
      route.add_product(left_scratch(), panels + first * column_bytes(terms.count), terms.count,
                        rows.count, p.padded, to);
    }
  }

  void add_column_sums(const LeftTiles<E>& left, const Rows& rows,
                       const Terms& terms) const noexcept {
    table_.matrices.add_left_sums(left.data, terms.count, rows.count,
                                  scratch(cut_.row) + rows.first);
  }

  void store(const Rows& rows, const E* sums) const noexcept {
    for (int64_t first = 0; first < columns_; first += width()) {
      const Panel p = panel(first);
      if (stores_directly(p)) continue;
      if (stored_ == Stored::all)
        store(rows, sums + first * rows.count, p.padded, first, p.columns);
      else
        store_some(rows, sums + first * rows.count, p);
    }
  }

  // Stores the sums of a panel that this pass stores, in runs along each row.
  void store_some(const Rows& rows, const E* sums, const Panel& p) const noexcept {
    for (int64_t r = 0; r < rows.count; ++r)
      for (int64_t c = 0, end; c < p.columns; c = end) {
        const bool stored = stores(rows.first + r, p.first + c);
        for (end = c + 1; end < p.columns; ++end)
          if (stores(rows.first + r, p.first + end) != stored) break;
        if (stored)
          store({rows.first + r, 1}, sums + r * p.padded + c, p.padded, p.first + c, end - c);
      }
  }

  void multiply_few_rows() noexcept {
    const Left left = all_of_left();
    E* const sums = scratch(cut_.sums);
    const Matrix& weight = call_.right;
    const std::byte* const from = weight.at(first_column_, 0);
    const auto* const x = reinterpret_cast<const E*>(left.data);
    const auto type = static_cast<int>(weight.dtype);
    if (side_ == RightSide::terms_in_place && call_.route) {
      call_.route->layers->few_rows_by_terms(left.data, left.stride, rows_, from,
                                             weight.column_stride, columns_, call_.sum, kSumBlock,
                                             scratch(cut_.block_sums), sums, cut_.group);
    } else if (side_ == RightSide::terms_in_place) {
      table_.matrices.few_rows_by_terms[type](x, left.stride, rows_, from, weight.column_stride,
                                              columns_, call_.sum, kSumBlock,
                                              scratch(cut_.block_sums), sums, cut_.group);
    } else if (call_.route) {
      call_.route->layers->few_rows(left.data, left.stride, rows_, from, weight.row_stride,
                                    columns_, call_.sum, kSumBlock, sums, cut_.group);
    } else {
      const bool in_memory = weight.rows * weight.columns * size_of(weight.dtype) > kWeightInCaches;
      table_.matrices.few_rows[type](x, left.stride, rows_, from, weight.row_stride, columns_,
                                     call_.sum, kSumBlock, in_memory, sums, cut_.group);
    }
    load_bias();
    store({0, rows_}, sums, cut_.group, 0, columns_);
  }

  // The left side with dense rows: in the computed type, or, for a route, as it is.
  struct Left {
    const void* data;
    int64_t stride;
  };
  Left all_of_left() const noexcept {
    const Matrix& left = call_.left;
    const bool dense = left.column_stride == 1 || left.columns == 1;
    if (call_.route) return dense && left.columns % 2 == 0 ? stored_left() : paired_left();
    if (left.dtype == dtype_of<E>() && dense) return stored_left();
    E* const rows = left_scratch();
    fma(left.dtype)
        .pack_rows(left.data, left.row_stride, left.column_stride, left.rows, left.columns, rows);
    return {rows, left.columns};
  }
  Left stored_left() const noexcept { return {call_.left.data, call_.left.row_stride}; }
  // Rows of a left side of 16 bits, with zeros up to whole pairs.
  Left paired_left() const noexcept {
    const Matrix& left = call_.left;
    const int64_t stride = round_up(left.columns, 2);
    auto* const rows = reinterpret_cast<uint16_t*>(left_scratch());
    std::fill_n(rows, left.rows * stride, uint16_t{0});
    for (int64_t r = 0; r < left.rows; ++r)
      for (int64_t k = 0; k < left.columns; ++k)
        rows[r * stride + k] = *reinterpret_cast<const uint16_t*>(left.at(r, k));
    return {rows, stride};
  }

  void load_bias() const noexcept {
    const Matrix& bias = call_.bias;
    if (bias.data)
      fma(bias.dtype)
          .pack_rows(bias.at(0, first_column_), 0, bias.column_stride, 1, columns_,
                     scratch(cut_.row));
  }

  void store(const Rows& rows, const E* sums, int64_t stride, int64_t first,
             int64_t columns) const noexcept {
    const int64_t row = first_row_ + rows.first;
    ProductStore<E> to = call_.store;
    if (call_.bias.data) to.bias = scratch(cut_.row) + first;
    const int64_t column = first_column_ + first;
    to.out = call_.out.at(row, column);
    to.row_stride = call_.out.row_stride, to.column_stride = call_.out.column_stride;
    if (call_.before.data) {
      to.before = call_.before.at(row, column);
      to.before_row_stride = call_.before.row_stride;
      to.before_column_stride = call_.before.column_stride;
    }
    table_.matrices.store[static_cast<int>(call_.out.dtype)](sums, stride, rows.count, columns, to);
  }

  void store_column_sums() const noexcept {
    const Matrix& target = call_.column_sums;
    ProductStore<E> to;
    to.add = true;
    to.out = target.at(0, first_row_);
    to.column_stride = target.column_stride;
    table_.matrices.store[static_cast<int>(target.dtype)](scratch(cut_.row), rows_, 1, rows_, to);
  }

  // Which sums a pass stores: all, or those without or with elements that the route cannot
  // multiply.
  enum class Stored : uint8_t { all, inside, outside };

  const ProductCall<E>& call_;
  const ProductLayout<E>& cut_;
  const KernelTable<E>& table_;
  const RightSide side_;
  std::byte* scratch_;
  int64_t first_row_ = 0, rows_ = 0, first_column_ = 0, columns_ = 0;
  const RouteKernels<E>* by_ = nullptr;  // of the pass; null: FMA
  Stored stored_ = Stored::all;
};

}  // namespace

template <class E>
void run_product(const ProductCall<E>& call, const ProductLayout<E>& cut, const Context& context,
                 std::byte* scratch) {
  const int64_t tasks = cut.groups * cut.pieces;
  TaskRun run(context, tasks);
  run.run(tasks, cut.workers, cut.to_executor, [&](int64_t task, int worker) {
    PieceOfProduct<E>(call, cut, cut.workers_memory.nth(scratch, worker)).run(task);
  });
}

template <class E>
void pack_right(const ProductCall<E>& call, const ProductLayout<E>& cut,
                const PackedLayout<E>& layout, std::byte* memory) noexcept {
  const PackedRight<E> packed = packed_right(layout, memory);
  for (int64_t group = 0; group < cut.groups; ++group)
    PieceOfProduct<E>(call, cut, nullptr).pack_group(group, packed);
}

template void run_product(const ProductCall<float>&, const ProductLayout<float>&, const Context&,
                          std::byte*);
template void run_product(const ProductCall<double>&, const ProductLayout<double>&, const Context&,
                          std::byte*);
template void pack_right(const ProductCall<float>&, const ProductLayout<float>&,
                         const PackedLayout<float>&, std::byte*) noexcept;
template void pack_right(const ProductCall<double>&, const ProductLayout<double>&,
                         const PackedLayout<double>&, std::byte*) noexcept;

}  // namespace rapt

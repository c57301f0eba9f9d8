// The loops of a product over pieces, blocks of terms, rows and panels.
#include "products/product_call.h"
#include "threads/task_run.h"

namespace rapt {
namespace {

template <class E>
class PieceOfProduct {
 public:
  PieceOfProduct(const ProductCall<E>& call, const ProductLayout<E>& cut,
                 std::byte* scratch) noexcept
      : call_(call), cut_(cut), table_(call.table), scratch_(scratch) {}

  // Packs the columns of a group for all terms.
  void pack_group(int64_t group, E* packed) noexcept {
    first_column_ = group * cut_.group;
    columns_ = std::min(cut_.group, call_.out.columns - first_column_);
    for (int64_t k = 0; k < call_.sum; k += kSumBlock)
      pack(k, std::min(kSumBlock, call_.sum - k), packed + first_column_ * call_.sum, k);
  }

  void run(int64_t task) noexcept {
    first_column_ = task / cut_.pieces * cut_.group;
    columns_ = std::min(cut_.group, call_.out.columns - first_column_);
    first_row_ = task % cut_.pieces * cut_.piece;
    rows_ = std::min(cut_.piece, call_.out.rows - first_row_);
    if (call_.few_rows()) {
      multiply_few_rows();
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

  // A panel of the group: its first column, its columns, and these in whole vectors.
  struct Panel {
    int64_t first, columns, padded;
  };
  Panel panel(int64_t first) const noexcept {
    const int64_t columns = std::min(cut_.width, columns_ - first);
    return {first, columns, (columns + table_.lanes - 1) / table_.lanes * table_.lanes};
  }

  // Rows of the piece.
  struct Rows {
    int64_t first, count;
  };

  // Terms of the sums.
  struct Terms {
    int64_t first, count;
  };

  void multiply() noexcept {
    E* const column_sums = scratch(cut_.row);
    if (call_.column_sums.data) std::fill_n(column_sums, rows_, E(0));
    load_bias();
    int64_t begin = 0;
    do {
      const int64_t end = std::min(begin + kSumChunk, call_.sum);
      if (!call_.packed)
        for (int64_t k = begin; k < end; k += kSumBlock)
          pack(k, std::min(kSumBlock, end - k), scratch(cut_.panels), k - begin);
      for (int64_t row = 0; row < rows_; row += kRowBlock) {
        const Rows rows{row, std::min(kRowBlock, rows_ - row)};
        E* const sums = scratch(cut_.sums) + (call_.sum > kSumChunk ? row * cut_.group : 0);
        if (call_.sum == 0) std::fill_n(sums, rows.count * cut_.group, E(0));
        for (int64_t k = begin; k < end; k += kSumBlock)
          multiply(rows, {k, std::min(kSumBlock, end - k)}, begin, sums);
        if (end == call_.sum) store(rows, sums);
      }
      begin = end;
    } while (begin < call_.sum);
  }

  // Packs a block of terms of the right side, panel after panel, each [terms][padded columns]. The
  // block of terms from `at` on follows those before, of which the first is from 0 on.
  void pack(int64_t k, int64_t terms, E* panels, int64_t at) const noexcept {
    const Matrix& right = call_.right;
    const bool transposed = call_.form == ProductForm::forward;  // its rows are columns here
    table_.matrices.pack_right[static_cast<int>(right.dtype)](
        transposed ? right.at(first_column_, k) : right.at(k, first_column_),
        transposed ? right.row_stride : right.column_stride,
        transposed ? right.column_stride : right.row_stride, columns_, terms,
        panels + at * cut_.group);
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
    const Matrix& left = call_.left;
    const bool transposed = call_.form == ProductForm::weight_gradient;
    const int64_t row = first_row_ + rows.first;
    E* const tiles = scratch(cut_.left);
    table_.matrices.pack_left[static_cast<int>(left.dtype)](
        transposed ? left.at(terms.first, row) : left.at(row, terms.first),
        transposed ? left.column_stride : left.row_stride,
        transposed ? left.row_stride : left.column_stride, rows.count, terms.count, tiles);
    return {tiles, 1, terms.count * table_.matrices.tile_rows};
  }

  // Does the last block of terms go straight to the output?
  bool stores_directly(const Panel& p) const noexcept {
    return p.columns == p.padded && call_.store.activation == Activation::none &&
           !call_.before.data && call_.out.dtype == dtype_of<E>() && call_.out.column_stride == 1 &&
           call_.sum > 0;
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
    const E* const panels =
        call_.packed ? call_.packed + first_column_ * call_.sum + terms.first * cut_.group
                     : scratch(cut_.panels) + (terms.first - chunk_begin) * cut_.group;
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
    if (call_.column_sums.data && first_column_ == 0)
      table_.matrices.add_left_sums(left.data, terms.count, rows.count,
                                    scratch(cut_.row) + rows.first);
    multiply_panels(left, rows, to_pack, terms, panels, sums);
  }

  void store(const Rows& rows, const E* sums) const noexcept {
    for (int64_t first = 0; first < columns_; first += cut_.width) {
      const Panel p = panel(first);
      if (!stores_directly(p)) store(rows, sums + first * rows.count, p.padded, first, p.columns);
    }
  }

  void multiply_few_rows() noexcept {
    const Left left = all_of_left();
    E* const sums = scratch(cut_.sums);
    const Matrix& weight = call_.right;
    table_.matrices.few_rows[static_cast<int>(weight.dtype)](
        left.data, left.stride, rows_, weight.at(first_column_, 0), weight.row_stride, columns_,
        call_.sum, kSumBlock, sums, cut_.group);
    load_bias();
    store({0, rows_}, sums, cut_.group, 0, columns_);
  }

  // The left side in the computed type, its rows dense.
  struct Left {
    const E* data;
    int64_t stride;
  };
  Left all_of_left() const noexcept {
    const Matrix& left = call_.left;
    if (left.dtype == dtype_of<E>() && (left.column_stride == 1 || left.columns == 1))
      return {reinterpret_cast<const E*>(left.data), left.row_stride};
    E* const dense = scratch(cut_.left);
    fma(left.dtype)
        .pack_rows(left.data, left.row_stride, left.column_stride, left.rows, left.columns, dense);
    return {dense, left.columns};
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

  const ProductCall<E>& call_;
  const ProductLayout<E>& cut_;
  const KernelTable<E>& table_;
  std::byte* scratch_;
  int64_t first_row_ = 0, rows_ = 0, first_column_ = 0, columns_ = 0;
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
void pack_right(const ProductCall<E>& call, const ProductLayout<E>& cut, E* packed) noexcept {
  PieceOfProduct<E> piece(call, cut, nullptr);
  for (int64_t group = 0; group < cut.groups; ++group) piece.pack_group(group, packed);
}

template void run_product(const ProductCall<float>&, const ProductLayout<float>&, const Context&,
                          std::byte*);
template void run_product(const ProductCall<double>&, const ProductLayout<double>&, const Context&,
                          std::byte*);
template void pack_right(const ProductCall<float>&, const ProductLayout<float>&, float*) noexcept;
template void pack_right(const ProductCall<double>&, const ProductLayout<double>&,
                         double*) noexcept;

}  // namespace rapt

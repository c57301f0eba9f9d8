// The loops of a product over pieces, blocks of terms, rows and panels.
#include "products/product_call.h"
#include "threads/task_run.h"

namespace rapt {
namespace {

template <class E>
class PieceOfProduct {
 public:
  PieceOfProduct(const ProductCall<E>& call, const ProductCut& cut, std::byte* scratch) noexcept
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
  template <class T = E>
  T* scratch(size_t place) const noexcept {
    return reinterpret_cast<T*>(scratch_ + place);
  }
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

  // Rows of the left side in the computed type, dense along k (forward, input_gradient) or along
  // the rows of the output (weight_gradient).
  struct Left {
    const E* data;
    int64_t stride;
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
        if (begin == 0) std::fill_n(sums, rows.count * cut_.group, E(0));
        for (int64_t k = begin; k < end; k += kSumBlock)
          multiply(rows, k, std::min(kSumBlock, end - k), begin, sums);
        if (end == call_.sum) store(rows, sums);
      }
      begin = end;
    } while (begin < call_.sum);
  }

  // Where the panel [terms][padded columns] of the block of terms from `at` on stands among packed
  // ones, of which the first block is from 0 on.
  int64_t place(const Panel& p, int64_t at, int64_t terms) const noexcept {
    return at * cut_.group + p.first * terms;
  }

  // Packs a block of terms by the kernel that packs queries: columns are what queries are there.
  void pack(int64_t k, int64_t terms, E* panels, int64_t at) const noexcept {
    const Matrix& right = call_.right;
    const bool transposed = call_.form == ProductForm::forward;  // its rows are columns here
    for (int64_t first = 0; first < columns_; first += cut_.width) {
      const Panel p = panel(first);
      const int64_t column = first_column_ + first;
      fma(right.dtype)
          .pack_queries(transposed ? right.at(column, k) : right.at(k, column),
                        transposed ? right.row_stride : right.column_stride,
                        transposed ? right.column_stride : right.row_stride, p.columns, terms, E(1),
                        p.padded, panels + place(p, at, terms));
    }
  }

  Left left_block(int64_t row, int64_t rows, int64_t k, int64_t terms) const noexcept {
    const Matrix& left = call_.left;
    const bool transposed = call_.form == ProductForm::weight_gradient;
    const int64_t r = transposed ? k : first_row_ + row, c = transposed ? first_row_ + row : k;
    const int64_t dims = transposed ? rows : terms;
    // The output kernel reads a few elements of each of 256 rows in turn: packed, these lie in an
    // L1 whatever the caller's distance between rows is.
    if (!transposed && left.dtype == dtype_of<E>() && (left.column_stride == 1 || dims == 1))
      return {reinterpret_cast<const E*>(left.at(r, c)), left.row_stride};
    E* const dense = scratch(cut_.left);
    fma(left.dtype)
        .pack_rows(left.at(r, c), left.row_stride, left.column_stride, transposed ? terms : rows,
                   dims, dense);
    return {dense, dims};
  }

  // sums += a block of terms; panel after panel, each [rows][padded columns].
  void multiply(const Rows& rows, int64_t k, int64_t terms, int64_t chunk_begin,
                E* sums) const noexcept {
    const Left left = left_block(rows.first, rows.count, k, terms);
    if (call_.column_sums.data && first_column_ == 0)
      table_.matrices.add_column_sums(left.data, left.stride, terms, rows.count,
                                      scratch(cut_.row) + rows.first);
    const RouteKernels<E>& route = fma(dtype_of<E>());
    const E* const panels =
        call_.packed ? call_.packed + first_column_ * call_.sum : scratch(cut_.panels);
    for (int64_t first = 0; first < columns_; first += cut_.width) {
      const Panel p = panel(first);
      const E* const right = panels + place(p, call_.packed ? k : k - chunk_begin, terms);
      E* const out = sums + first * rows.count;
      if (call_.form == ProductForm::weight_gradient) {
        route.products[p.padded / table_.lanes - 1].output(right, left.data, left.stride, terms,
                                                           rows.count, nullptr, out);
      } else {
        const GradientSpan<E> span{.weights = left.data,
                                   .queries = left.stride,
                                   .rows = right,
                                   .row_stride = p.padded,
                                   .count = terms,
                                   .bits = nullptr};
        route.key_gradients.add(&span, 1, rows.count, p.padded, out, p.padded);
      }
    }
  }

  void store(const Rows& rows, const E* sums) const noexcept {
    for (int64_t first = 0; first < columns_; first += cut_.width) {
      const Panel p = panel(first);
      store(rows, sums + first * rows.count, p.padded, first, p.columns);
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
  const ProductCut& cut_;
  const KernelTable<E>& table_;
  std::byte* scratch_;
  int64_t first_row_ = 0, rows_ = 0, first_column_ = 0, columns_ = 0;
};

}  // namespace

template <class E>
void run_product(const ProductCall<E>& call, const ProductCut& cut, const Context& context,
                 std::byte* scratch) {
  const int64_t tasks = cut.groups * cut.pieces;
  TaskRun run(context, tasks);
  run.run(tasks, cut.workers, cut.to_executor, [&](int64_t task, int worker) {
    PieceOfProduct<E>(call, cut, scratch + static_cast<size_t>(worker) * cut.worker_bytes)
        .run(task);
  });
}

template <class E>
void pack_right(const ProductCall<E>& call, const ProductCut& cut, E* packed) noexcept {
  PieceOfProduct<E> piece(call, cut, nullptr);
  for (int64_t group = 0; group < cut.groups; ++group) piece.pack_group(group, packed);
}

template void run_product(const ProductCall<float>&, const ProductCut&, const Context&, std::byte*);
template void run_product(const ProductCall<double>&, const ProductCut&, const Context&,
                          std::byte*);
template void pack_right(const ProductCall<float>&, const ProductCut&, float*) noexcept;
template void pack_right(const ProductCall<double>&, const ProductCut&, double*) noexcept;

}  // namespace rapt

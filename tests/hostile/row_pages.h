#pragma once
// A tensor each of whose rows lies in memory pages of its own, so that every row can be made
// inaccessible or read-only by itself. A row touches the first or the last byte of its pages: with
// Edge::back, what follows a row is inaccessible unless the next row is in use.
#include "hostile/guarded.h"

namespace laws {

class RowPages {
 public:
  enum class Access : uint8_t { none, read, write };

  // dims: [entries, ..., rows, dim]. No row is accessible.
  RowPages(check::DType dtype, const check::Dims& dims, Edge edge)
      : dims_(dims),
        row_bytes_(static_cast<size_t>(dims.back() * rapt::size_of(dtype))),
        span_(whole_pages(row_bytes_)),
        memory_(span_ * static_cast<size_t>(rows()), Edge::front) {
    check::Dims strides(dims.size(), 1);
    auto step = static_cast<int64_t>(span_) / rapt::size_of(dtype);
    for (size_t d = dims.size() - 1; d-- > 0; step *= dims[d]) strides[d] = step;
    offset_ = edge == Edge::back ? span_ - row_bytes_ : 0;
    view_ = check::TensorView(memory_.data() + offset_, dtype, dims, strides, false);
    if (rows() > 0) memory_.protect(0, span_ * static_cast<size_t>(rows()), PROT_NONE);
  }

  const check::TensorView& view() const { return view_; }
  operator const check::TensorView&() const { return view_; }

  // Sets the access to a row of all matrices of an entry.
  void allow(int64_t entry, int64_t row, Access access) const {
    const int flags[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    for (int64_t m = 0; m < matrices(); ++m) {
      const size_t begin = nth_row(entry, m, row) * span_;
      memory_.protect(begin, begin + span_, flags[static_cast<int>(access)]);
    }
  }

  // Copies a row of all matrices from a dense tensor of the same shape, or compares with it.
  void copy_row(const check::TensorView& from, int64_t entry, int64_t row) const {
    for (int64_t m = 0; m < matrices(); ++m)
      std::memcpy(at(entry, m, row), dense_row(from, entry, m, row), row_bytes_);
  }
  bool equals_row(const check::TensorView& dense, int64_t entry, int64_t row) const {
    for (int64_t m = 0; m < matrices(); ++m)
      if (std::memcmp(at(entry, m, row), dense_row(dense, entry, m, row), row_bytes_) != 0)
        return false;
    return true;
  }

 private:
  static size_t whole_pages(size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
  }
  int64_t rows() const { return dims_.front() * matrices() * dims_[dims_.size() - 2]; }
  int64_t matrices() const {
    int64_t count = 1;
    for (size_t d = 1; d + 2 < dims_.size(); ++d) count *= dims_[d];
    return count;
  }
  size_t nth_row(int64_t entry, int64_t matrix, int64_t row) const {
    return static_cast<size_t>((entry * matrices() + matrix) * dims_[dims_.size() - 2] + row);
  }
  std::byte* at(int64_t entry, int64_t matrix, int64_t row) const {
    return memory_.data() + offset_ + nth_row(entry, matrix, row) * span_;
  }
  const std::byte* dense_row(const check::TensorView& t, int64_t entry, int64_t matrix,
                             int64_t row) const {
    return static_cast<const std::byte*>(t.data) + nth_row(entry, matrix, row) * row_bytes_;
  }

  check::Dims dims_;
  size_t row_bytes_, span_, offset_ = 0;  // span_: from row to row
  Guarded memory_;
  check::TensorView view_;
};

}  // namespace laws

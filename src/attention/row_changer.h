#pragma once
// Rows of a tile, changed before they are multiplied: read as [dims][rows], in which dimensions
// that turn together are whole vectors, changed there, and written as rows again.
#include "attention/rotary_angles.h"

namespace rapt {

// Rows in memory, of any storage and strides.
struct RowsAt {
  std::byte* data;
  DType dtype;
  int64_t row_stride, dim_stride;
};

// Scratch of a worker, for tiles of at most `width` rows.
struct RowChangeScratch {
  int64_t head_dim;
  size_t cos_t, sin_t;  // [pairs][width]
  size_t rows_t;        // [head_dim][width]
  size_t bytes;

  RowChangeScratch(int64_t dims, int64_t pairs, int64_t width, size_t element) : head_dim(dims) {
    ScratchPlaces places;
    cos_t = places.place(true, {pairs, width}, element);
    sin_t = places.place(true, {pairs, width}, element);
    rows_t = places.place(true, {head_dim, width}, element);
    bytes = places.total();
  }
};

template <class E>
class RowChanger {
 public:
  RowChanger(const KernelTable<E>& table, const RotaryAngles& angles,
             const RowChangeScratch& layout, std::byte* scratch)
      : table_(table), angles_(angles), layout_(layout), scratch_(scratch) {}

  // Rows that are `first_row` + 0, 1, ... in the tensor and `at` in their sequence, of the head at
  // `index`, turned by their positions, or back (`inverse`). `from` and `to` may be the same.
  void change(const RowsAt& from, const RowPositions& positions, const int64_t* index,
              int64_t first_row, Positions at, bool inverse, const RowsAt& to) const noexcept {
    const int64_t dims = layout_.head_dim;
    const int64_t padded = (at.count + table_.lanes - 1) / table_.lanes * table_.lanes;
    E* const rows_t = part(layout_.rows_t);
    table_.fma[static_cast<int>(from.dtype)]->pack_queries(from.data, from.row_stride * at.step,
                                                           from.dim_stride, at.count, dims, E(1),
                                                           padded, rows_t);
    rotate(rows_t, positions, index, first_row, at, inverse, padded);
    table_.store_rows[static_cast<int>(to.dtype)](rows_t, dims, padded, nullptr, ~uint64_t{0},
                                                  at.count, to.data, to.row_stride * at.step,
                                                  to.dim_stride);
  }

  // The same of rows that lie transposed already.
  void rotate(E* rows_t, const RowPositions& positions, const int64_t* index, int64_t first_row,
              Positions at, bool inverse, int64_t padded) const noexcept {
    E *const cos_t = part(layout_.cos_t), *const sin_t = part(layout_.sin_t);
    angles_.fill(positions, index, first_row, at, inverse, padded, cos_t, sin_t);
    table_.row_changes.rotate(rows_t, angles_.dims(), angles_.pairs(), cos_t, sin_t, padded);
  }

 private:
  E* part(size_t offset) const noexcept { return reinterpret_cast<E*>(scratch_ + offset); }

  const KernelTable<E>& table_;
  const RotaryAngles& angles_;
  const RowChangeScratch& layout_;
  std::byte* scratch_;
};

}  // namespace rapt

#pragma once
// Rows of a tile, changed before they are multiplied: read as [dims][rows], in which dimensions
// that turn together are whole vectors, changed there, and written as rows again.
#include "attention/problem.h"
#include "attention/rotary_angles.h"

namespace rapt {

// Rows in memory, of any storage and strides.
struct RowsAt {
  std::byte* data;
  DType dtype;
  int64_t row_stride, dim_stride;
};

// Which rows: of the head at `index`, `first_row` + 0, 1, ... in the tensor, `at` in their
// sequence.
struct RowPlace {
  const int64_t* index;
  int64_t first_row;
  Positions at;
};

// Bytes of the tables of a call; what fills them in.
inline size_t row_change_bytes(const RowChange& change) {
  return RotaryAngles::bytes_for(change.pairs);
}
inline void write_row_change(const RowChange& change, int64_t head_dim, std::byte* tables) {
  RotaryAngles(*change.rotary, head_dim, change.pairs, tables);
}

template <class E>
class RowChanger {
  // Scratch of a worker.
  struct Layout {
    size_t cos_t, sin_t;  // [pairs][width]
    size_t rows_t;        // [head_dim][width]
    size_t bytes;

    Layout(int64_t head_dim, int64_t pairs, int64_t width) {
      ScratchPlaces places;
      cos_t = places.place(true, {pairs, width}, sizeof(E));
      sin_t = places.place(true, {pairs, width}, sizeof(E));
      rows_t = places.place(true, {head_dim, width}, sizeof(E));
      bytes = places.bytes();
    }
  };

 public:
  RowChanger(const KernelTable<E>& table, const RowChange& change, int64_t head_dim,
             std::byte* tables, std::byte* scratch) noexcept
      : table_(table),
        angles_(change.pairs, tables),
        head_dim_(head_dim),
        layout_(head_dim, change.pairs, width()),
        scratch_(scratch) {}

  // Bytes of scratch.
  static size_t bytes_for(const KernelTable<E>& table, const RowChange& change, int64_t head_dim) {
    return Layout(head_dim, change.pairs, int64_t{table.max_vectors} * table.lanes).bytes;
  }

  // Rows that change() takes, at most.
  int64_t width() const noexcept { return int64_t{table_.max_vectors} * table_.lanes; }

  // `from` and `to` may be the same.
  void change(const RowsAt& from, const RowPositions& positions, const RowPlace& place,
              const RowsAt& to) const noexcept {
    const int64_t padded = load(from, place);
    rotate(part(layout_.rows_t), positions, place, false, padded);
    save(place, padded, nullptr, to);
  }

  // The gradient of rows from that of the changed ones.
  void change_back(const RowsAt& from, const RowPositions& positions, const RowPlace& place,
                   const E* factor, const RowsAt& to) const noexcept {
    const int64_t padded = load(from, place);
    change_back(part(layout_.rows_t), positions, place, padded);
    save(place, padded, factor, to);
  }
  // The same of one that lies transposed already, [head_dim][padded].
  void change_back(E* gradient_t, const RowPositions& positions, const RowPlace& place,
                   int64_t padded) const noexcept {
    rotate(gradient_t, positions, place, true, padded);
  }

 private:
  E* part(size_t offset) const noexcept { return reinterpret_cast<E*>(scratch_ + offset); }

  // To rows_t; returns how many lanes there are.
  int64_t load(const RowsAt& from, const RowPlace& place) const noexcept {
    const int64_t padded = (place.at.count + table_.lanes - 1) / table_.lanes * table_.lanes;
    table_.fma[static_cast<int>(from.dtype)]->pack_queries(
        from.data, from.row_stride, from.dim_stride, place.at.count, head_dim_, E(1), padded,
        part(layout_.rows_t));
    return padded;
  }
  void save(const RowPlace& place, int64_t padded, const E* factor,
            const RowsAt& to) const noexcept {
    table_.store_rows[static_cast<int>(to.dtype)](part(layout_.rows_t), head_dim_, padded, factor,
                                                  ~uint64_t{0}, place.at.count, to.data,
                                                  to.row_stride, to.dim_stride);
  }
  void rotate(E* rows_t, const RowPositions& positions, const RowPlace& place, bool inverse,
              int64_t padded) const noexcept {
    E *const cos_t = part(layout_.cos_t), *const sin_t = part(layout_.sin_t);
    angles_.fill(positions, place.index, place.first_row, place.at, inverse, padded, cos_t, sin_t);
    table_.row_changes.rotate(rows_t, angles_.dims(), angles_.pairs(), cos_t, sin_t, padded);
  }

  const KernelTable<E>& table_;
  RotaryAngles angles_;
  int64_t head_dim_;
  Layout layout_;
  std::byte* scratch_;
};

}  // namespace rapt

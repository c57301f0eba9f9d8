#pragma once
// Copies rows of tensors [rows, dim] as bytes, whatever they mean, and finds the slots of a cache
// to which new rows go.
#include <algorithm>
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt {

// Rows in memory: element d of row i is at data + i * row + d * element.
struct RowMemory {
  char* data;
  int64_t row, element;  // in bytes
};

// The rows of the last two dimensions of a view, from `offset` elements on.
inline RowMemory rows_from(const TensorView& view, int64_t offset) noexcept {
  const int64_t size = size_of(view.dtype);
  return {static_cast<char*>(view.data) + offset * size, view.strides[view.rank - 2] * size,
          view.strides[view.rank - 1] * size};
}

// Copies `count` rows of `dim` elements of `size` bytes, in one piece where both sides are dense.
void copy_rows(const RowMemory& to, const RowMemory& from, int64_t count, int64_t dim,
               int64_t size) noexcept;

// Cuts the rows [0, count), of which row i goes to slot start + i, where pages of `page_keys` slots
// end. Calls visit(row, page, slot in the page, rows) for each piece.
template <class Visit>
void for_each_piece(int64_t start, int64_t count, int64_t page_keys, const Visit& visit) {
  for (int64_t row = 0; row < count;) {
    const int64_t slot = (start + row) % page_keys;
    const int64_t rows = std::min(count - row, page_keys - slot);
    visit(row, (start + row) / page_keys, slot, rows);
    row += rows;
  }
}

}  // namespace rapt

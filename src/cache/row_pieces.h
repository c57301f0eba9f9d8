#pragma once
// Copies runs of rows between tensors, and cuts the rows of an append where pages end.
#include <algorithm>
#include <cstdint>

#include "base/copy_rows.h"
#include "rapt/tensor.h"

namespace rapt {

// Copies `count` rows of the last two dimensions, from `from_offset` elements on in `from`, to
// `to_offset` elements on in `to`. Both have the same dtype and the same last dimension.
inline void copy_run(const TensorView& to, int64_t to_offset, const TensorView& from,
                     int64_t from_offset, int64_t count) noexcept {
  const int64_t size = size_of(to.dtype);
  const auto strides = [&](const TensorView& view) {
    return RowStrides{view.strides[view.rank - 2] * size, view.strides[view.rank - 1] * size};
  };
  copy_rows(static_cast<std::byte*>(to.data) + to_offset * size, strides(to),
            static_cast<const std::byte*>(from.data) + from_offset * size, strides(from), count,
            to.shape[to.rank - 1], size);
}

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

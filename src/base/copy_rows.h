#pragma once
// Copies rows of `dim` elements as bytes, whatever they mean: between a cache and the rows that are
// appended to it, or into dense rows that kernels read. The function is in the header because it is
// inlined into the loop over key blocks, where most copies are of a few short rows.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rapt {

// Element d of row i is i * row + d * element bytes behind the first element.
struct RowStrides {
  int64_t row, element;
};

// Copies `count` rows of `dim` elements of `size` bytes: in one piece where both sides are dense,
// row by row where elements follow each other, and else element by element.
inline void copy_rows(std::byte* to, RowStrides to_strides, const std::byte* from,
                      RowStrides from_strides, int64_t count, int64_t dim, int64_t size) noexcept {
  const int64_t bytes = dim * size;
  if (dim != 1 && (to_strides.element != size || from_strides.element != size)) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t d = 0; d < dim; ++d)
        std::memcpy(to + i * to_strides.row + d * to_strides.element,
                    from + i * from_strides.row + d * from_strides.element,
                    static_cast<size_t>(size));
  } else if (to_strides.row == bytes && from_strides.row == bytes) {
    std::memcpy(to, from, static_cast<size_t>(count * bytes));
  } else {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * to_strides.row, from + i * from_strides.row, static_cast<size_t>(bytes));
  }
}

}  // namespace rapt

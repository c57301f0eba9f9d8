#pragma once
// Copies of rows that no single stride reaches (Operand::run_rows), such as the queries of a group
// of heads in [batch, length, heads, head_dim]. Kernels read and write rows at one stride.
#include <cstring>

#include "attention/call/problem.h"

namespace rapt {

// Copies `count` elements of `size` bytes; strides count elements.
inline void copy_elements(const std::byte* from, int64_t from_stride, int64_t count, int64_t size,
                          std::byte* to, int64_t to_stride) noexcept {
  const auto bytes = static_cast<size_t>(size);
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * to_stride * size, from + i * from_stride * size, bytes);
}

// dense [rows.count, dims] = rows of an operand. `first`: where its row 0 begins.
inline void gather_rows(const Operand& from, const std::byte* first, Positions rows, int64_t dims,
                        std::byte* dense) noexcept {
  const int64_t size = size_of(from.dtype);
  for (int64_t i = 0; i < rows.count; ++i)
    copy_elements(first + from.row_offset(rows[i]) * size, from.dim_stride, dims, size,
                  dense + i * dims * size, 1);
}

// The other way.
inline void scatter_rows(const std::byte* dense, Positions rows, int64_t dims, const Operand& to,
                         std::byte* first) noexcept {
  const int64_t size = size_of(to.dtype);
  for (int64_t i = 0; i < rows.count; ++i)
    copy_elements(dense + i * dims * size, 1, dims, size, first + to.row_offset(rows[i]) * size,
                  to.dim_stride);
}

}  // namespace rapt

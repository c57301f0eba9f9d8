#pragma once
// Copies of rows that no single stride reaches (Operand::run_rows), such as the queries of a group
// of heads in [batch, length, heads, head_dim]. Kernels read and write rows at one stride.
#include "attention/call/problem.h"
#include "base/copy_rows.h"

namespace rapt {

// dense [rows.count, dims] = rows of an operand. `first`: where its row 0 begins.
inline void gather_rows(const Operand& from, const std::byte* first, Positions rows, int64_t dims,
                        std::byte* dense) noexcept {
  const int64_t size = size_of(from.dtype);
  for (int64_t i = 0; i < rows.count; ++i)
    copy_rows(dense + i * dims * size, {0, size}, first + from.row_offset(rows[i]) * size,
              {0, from.dim_stride * size}, 1, dims, size);
}

// The other way.
inline void scatter_rows(const std::byte* dense, Positions rows, int64_t dims, const Operand& to,
                         std::byte* first) noexcept {
  const int64_t size = size_of(to.dtype);
  for (int64_t i = 0; i < rows.count; ++i)
    copy_rows(first + to.row_offset(rows[i]) * size, {0, to.dim_stride * size},
              dense + i * dims * size, {0, size}, 1, dims, size);
}

}  // namespace rapt

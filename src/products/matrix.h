#pragma once
// A checked matrix. Into this room come the tensors of a product; out of it go its results. It may
// use the public headers, src/base, the tasks of src/threads and the kernel table.
#include <cstddef>
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt {

struct Matrix {
  std::byte* data = nullptr;  // null: absent, or without elements
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 1;  // in elements

  std::byte* at(int64_t row, int64_t column) const noexcept {
    return data + (row * row_stride + column * column_stride) * size_of(dtype);
  }
};

}  // namespace rapt

#pragma once
// Checks of tensors that are appended to a cache or written into it.
#include <initializer_list>

#include "base/tensor_memory.h"
#include "rapt/tensor.h"

namespace rapt {

// Checks that there is a tensor of a valid rank, with aligned elements in memory.
// Throws Error(argument, shape, overflow).
void check_present(const char* name, const TensorView& view);

// The same, and that it has the dtype of the cache and the lengths `expected`, of which kAnyRows
// stands for any. Throws Error(argument, dtype, shape, overflow).
inline constexpr int64_t kAnyRows = -1;
void check_rows(const char* name, const TensorView& view, std::initializer_list<int64_t> expected,
                DType dtype);

// Checks a tensor [length] of i64. Throws Error(argument, dtype, shape, overflow).
void check_integers(const char* name, const TensorView& view, int64_t length);
// Element i of such a tensor.
inline int64_t integer_at(const TensorView& view, int64_t i) noexcept {
  return static_cast<const int64_t*>(view.data)[i * view.strides[0]];
}

}  // namespace rapt

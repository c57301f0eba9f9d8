#pragma once
// Shapes [..., n] of layers that work row by row.
#include <string>

#include "rapt/tensor.h"

namespace rapt::nn {

// The leading dimensions of a tensor of rank 1 or more.
inline Shape leading_dims(const TensorView& view) {
  return view.dims().first(static_cast<size_t>(view.rank - 1));
}
inline int64_t last_dim(const TensorView& view) { return view.shape[view.rank - 1]; }
// The number of rows. Throws Error(overflow).
inline int64_t rows_of(const TensorView& view) { return element_count(leading_dims(view)); }

// A shape with one more dimension. Throws Error(shape) where it would exceed the largest rank.
class LongerShape {
 public:
  LongerShape(const char* name, const TensorView& view, int64_t last) {
    if (view.rank < 0 || view.rank >= kMaxRank)
      throw Error(view.rank < 0 ? ErrorCode::argument : ErrorCode::shape,
                  std::string(name) + (view.rank < 0 ? " is missing" : " has too many dimensions"));
    for (int i = 0; i < view.rank; ++i) lengths_[i] = view.shape[i];
    lengths_[view.rank] = last;
    rank_ = static_cast<size_t>(view.rank) + 1;
  }
  operator Shape() const noexcept { return {lengths_, rank_}; }

 private:
  int64_t lengths_[kMaxRank];
  size_t rank_;
};

// Throws Error(shape) unless the last dimension has this length, Error(argument) for an absent
// tensor.
inline void check_last(const char* name, const TensorView& view, const char* length_name,
                       int64_t length) {
  if (!view.defined()) throw Error(ErrorCode::argument, std::string(name) + " is missing");
  if (view.rank < 1 || last_dim(view) != length)
    throw Error(ErrorCode::shape, std::string(name) + " " + to_string(view.dims()) +
                                      "; expected [..., " + length_name + " = " +
                                      std::to_string(length) + "]");
}

// The element at a flat index of a dense tensor.
inline std::byte* element_at(const TensorView& view, int64_t index) {
  return static_cast<std::byte*>(view.data) + index * size_of(view.dtype);
}

// The type in which a dtype is computed.
inline DType computed_type(DType dtype) { return dtype == DType::f64 ? dtype : DType::f32; }

}  // namespace rapt::nn

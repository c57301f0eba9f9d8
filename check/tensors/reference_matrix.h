#pragma once
// Reads tensors for the references: one matrix of one head, with strides, broadcast and groups.
// Shares no code with the library, except TensorView, which describes where the elements are.
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "rapt/tensor.h"

namespace check {

inline double element(const rapt::TensorView& t, int64_t offset) {
  switch (t.dtype) {
    case rapt::DType::f32:
      return static_cast<const float*>(t.data)[offset];
    case rapt::DType::f64:
      return static_cast<const double*>(t.data)[offset];
    case rapt::DType::bf16:
      return static_cast<const rapt::BFloat16*>(t.data)[offset];
    case rapt::DType::f16:
      return static_cast<const rapt::Float16*>(t.data)[offset];
    default:
      throw std::logic_error("the reference reads f32, f64, bf16 and f16");
  }
}

// One matrix of a tensor. A dimension of length 1 is broadcast.
struct Matrix {
  const rapt::TensorView* tensor = nullptr;
  int64_t start = 0, row_stride = 0, column_stride = 0;
  int64_t offset(int64_t row, int64_t column) const {
    return start + row * row_stride + column * column_stride;
  }
  double operator()(int64_t row, int64_t column) const {
    return element(*tensor, offset(row, column));
  }
};

template <class Real>
std::vector<Real> values_of(const Matrix& m, int64_t rows, int64_t columns) {
  std::vector<Real> values;
  values.reserve(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) values.push_back(static_cast<Real>(m(r, c)));
  return values;
}

// The matrix of `t` for the output's head `leading`: at the same index, at 0 where t is broadcast,
// and at h / (heads / own heads) where t has fewer heads.
inline Matrix matrix_of(const rapt::TensorView& t, std::span<const int64_t> leading,
                        std::span<const int64_t> lengths) {
  Matrix m{&t, 0, t.strides[t.rank - 2], t.strides[t.rank - 1]};
  if (t.shape[t.rank - 2] == 1) m.row_stride = 0;
  if (t.shape[t.rank - 1] == 1) m.column_stride = 0;
  for (int i = 0; i < t.rank - 2; ++i) {
    const auto from_right = static_cast<size_t>(t.rank - 3 - i);
    const size_t out = lengths.size() - 1 - from_right;
    const int64_t own =
        t.shape[i] == lengths[out] ? leading[out] : leading[out] / (lengths[out] / t.shape[i]);
    m.start += own * t.strides[i];
  }
  return m;
}

// The index of head `head` in the leading dimensions `lengths`.
inline std::vector<int64_t> leading_index(int64_t head, std::span<const int64_t> lengths) {
  std::vector<int64_t> index(lengths.size());
  for (size_t i = index.size(); i-- > 0;) {
    index[i] = head % lengths[i];
    head /= lengths[i];
  }
  return index;
}

// Rounds x to a 16-bit dtype; f32 and f64 leave it as it is.
template <class Real>
Real rounded(rapt::DType dtype, Real x) {
  if (dtype == rapt::DType::bf16) return rapt::BFloat16::from(static_cast<double>(x));
  if (dtype == rapt::DType::f16) return rapt::Float16::from(static_cast<double>(x));
  return x;
}

}  // namespace check

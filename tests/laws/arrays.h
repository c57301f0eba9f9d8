#pragma once
// Tensors for the tests: made, rearranged, laid out with any strides, compared bit by bit.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "laws/random.h"
#include "rapt/tensor.h"

namespace laws {

using rapt::DType;
using rapt::Shape;
using rapt::Tensor;
using rapt::TensorView;
using Dims = std::vector<int64_t>;

std::string to_string(const Dims& dims);

// Calls visit(index) for every element, row-major.
void for_each_index(Shape shape, const std::function<void(std::span<const int64_t>)>& visit);

// Reads and writes one element of f32, f64, i64 or bool through the strides.
double get(const TensorView& view, std::span<const int64_t> index);
void set(const TensorView& view, std::span<const int64_t> index, double value);

Tensor filled(DType dtype, const Dims& dims, double value);
Tensor random_normal(Random& random, DType dtype, const Dims& dims, double magnitude = 1);
// A dense tensor of the same shape with change(value, index) in each place.
Tensor mapped(const TensorView& view,
              const std::function<double(double, std::span<const int64_t>)>& change);
// The entries `indices` of one dimension, in that order: permutes, selects, repeats.
// A negative dim counts from the end.
Tensor taken(const TensorView& view, int dim, std::span<const int64_t> indices);
Tensor concatenated(const TensorView& a, const TensorView& b, int dim);

// The same numbers with other strides, in memory whose gaps hold NaN.
enum class Layout : uint8_t {
  dense,
  padded_rows,   // some elements between rows
  transposed,    // the last two dimensions exchanged in memory
  reversed,      // negative strides in all dimensions
  last_stride,   // last dimension with stride 2 or 3
  rows_outside,  // heads inside of rows: [batch, len, heads, dim] in memory
};
inline constexpr int kLayouts = 6;
const char* name_of(Layout layout);

class Strided {
 public:
  Strided() = default;
  Strided(const TensorView& values, Layout layout);
  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }

 private:
  std::shared_ptr<std::byte[]> memory_;
  TensorView view_;
};

// Are shape, dtype and every bit the same? NaNs count by their bits too.
testing::AssertionResult same_bits(const TensorView& got, const TensorView& expected);

}  // namespace laws

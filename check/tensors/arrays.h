#pragma once
// Tensors for checks: creating, rearranging, laying out with any strides, comparing bit by bit.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "check/tensors/random.h"
#include "rapt/tensor.h"

namespace check {

using rapt::DType;
using rapt::Shape;
using rapt::Tensor;
using rapt::TensorView;
using Dims = std::vector<int64_t>;

std::string to_string(const Dims& dims);
// Shortest text that reads back as the same number.
std::string number_text(double value);

// Calls visit(index) for every element, row-major.
void for_each_index(Shape shape, const std::function<void(std::span<const int64_t>)>& visit);

// Reads and writes one element of f32, f64, bf16, f16, i64 or bool through the strides. Every
// float becomes a double exactly; set() rounds to nearest (16 bits: by way of f32).
double get(const TensorView& view, std::span<const int64_t> index);
double element_at(const TensorView& view, int64_t offset);  // offset: in elements, from view.data
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
  padded,       // some elements between rows
  transposed,   // the last two dimensions exchanged in memory
  negative,     // negative strides in all dimensions
  strided,      // last dimension with stride 2 or 3
  interleaved,  // heads inside of rows: [batch, len, heads, dim] in memory
};
inline constexpr const char* kLayoutNames[] = {"dense",    "padded",  "transposed",
                                               "negative", "strided", "interleaved"};
inline constexpr int kLayouts = 6;
inline const char* name_of(Layout layout) { return kLayoutNames[static_cast<int>(layout)]; }

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

// The elements of any view, row-major.
std::vector<double> values_of(const TensorView& view);

// The first difference in shape, dtype or any bit; none if they are equal. NaNs compare by their
// bits.
std::optional<std::string> difference_of_bits(const TensorView& got, const TensorView& expected);

}  // namespace check

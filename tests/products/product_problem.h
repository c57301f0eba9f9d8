#pragma once
// Drawn products of layers: sizes, dtypes, strides, options; and what the results should be.
//
// Tolerance, as in check/tolerance/tolerance.h: the error of a result, against sums in the next
// larger type, is at most twice that of a plain loop in the type of the computation plus a floor.
// With e the distance from 1 to the next number (two roundings), per element:
//   z = sum x w + bias     e (sum |x w| + |bias|), for products, sums and the addition of the bias;
//                          l sum |x w| for products of parts (tile registers), where l is what
//                          parts leave out of a product of two elements (left_out_of())
//   activation(z)          that times the largest slope, 1.2; 4 e |activation(z)| for its last
//                          steps; 3 e |a| |z| s (1 - s) for the rounding of the argument a of a
//                          logistic function s
//   ... + y                e (|activation(z)| + |y|) / 2
//   stored in 16 bits      half the distance of its numbers there
#include <optional>
#include <vector>

#include "check/tensors/arrays.h"
#include "check/tolerance/tolerance.h"
#include "rapt/product.h"
#include "support/call.h"

namespace laws {

// A tensor of any strides, in memory of its own whose gaps hold NaN.
class Placed {
 public:
  enum class Gaps : uint8_t { none, rows, columns, everywhere };
  Placed() = default;
  Placed(Placed&&) = default;
  Placed& operator=(Placed&&) = default;
  // `transposed`: does the first dimension vary fastest? `reversed`: are strides negative?
  Placed(const TensorView& values, bool transposed, Gaps gaps, bool reversed);
  // One with drawn strides.
  static Placed drawn(Random& random, const TensorView& values);
  // A matrix all of whose rows (or columns) are the same memory; for inputs.
  static Placed repeated(const TensorView& values, int dim);

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }
  bool gaps_untouched() const;

 private:
  std::vector<std::byte> memory_;
  TensorView view_;
};

enum class Product : uint8_t { forward, input_gradient, weight_gradient };
inline constexpr const char* kProductNames[] = {"forward", "d_x", "d_weight"};

// The outputs of gradients stand in the place of what they are gradients of: `x` is d_x in an
// input_gradient, `weight` and `bias` are d_weight and d_bias in a weight_gradient, `y` is d_y in
// both.
struct DrawnProduct {
  Product product = Product::forward;
  int64_t rows = 0, in_features = 0, out_features = 0;
  Placed x, weight, y;  // [rows, in_features], [out_features, in_features], [rows, out_features]
  Placed bias, before;  // [out_features], [rows, out_features]
  bool has_bias = false, has_before = false;
  bool has_weight = true;  // false: d_bias alone
  rapt::Activation activation = rapt::Activation::none;
  bool add = false;
  rapt::Precision precision = rapt::Precision::automatic;

  DrawnProduct(Random& random, Product product, int64_t rows, int64_t in, int64_t out, bool f64);
  std::string text() const;
  // Calls the library.
  void call(const Context& context = {}, std::span<std::byte> workspace = {}) const;
  size_t workspace_bytes(const Context& context = {}) const;
  DType computed() const { return x.view().dtype == DType::f64 ? DType::f64 : DType::f32; }
  const Placed& output() const {
    return product == Product::forward ? y : product == Product::input_gradient ? x : weight;
  }
  std::vector<const Placed*> outputs() const;
};

// The most that a product of two elements of these dtypes loses, as a fraction of it, because its
// route multiplies parts (src/kernels/amx/tile_parts.simd.h). Three parts a = h + m + r, each
// rounded to nearest, so that |m| <= 2^-8 |a| and |r| <= 2^-16 |a|: m r', r m' and r r' are left
// out. Two parts: check/tolerance/two_parts.h; those of f16 are exact, and only `fast` leaves out m
// m'.
double left_out_of(DType left, DType right, rapt::Precision precision);

// The outputs that call() should write, in their order. Make them before the call.
std::vector<check::Expectation> expectations_of(const DrawnProduct& product);

// A size with a chance for each of the borders of tiles, panels, blocks and chunks.
int64_t drawn_size(Random& random, int64_t most);

}  // namespace laws

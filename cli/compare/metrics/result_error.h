#pragma once
// How far a result is from the exact one.
#include <cstdint>
#include <vector>

#include "rapt/tensor.h"

namespace rapt::cli {

// Errors of the rows of a result, each |row - exact row| / |exact row|, in ascending order, NaN
// last. An error at p % is the least that p % of the rows do not exceed. A row of zeros that is
// met has the error 0, one that is missed the error inf.
struct RowErrors {
  double at_50 = 0, at_90 = 0, at_99 = 0, at_100 = 0;
};

struct ResultError {
  double relative = 0;  // |result - exact| / |exact| over all elements; 0 / 0 is 0
  RowErrors rows;
};

// Both are dense tensors of one shape; their dtypes may differ.
ResultError result_error(const TensorView& result, const TensorView& exact);

// The results of one seed after the other. With D_s = result of seed s - exact, over all elements:
//
//   bias^2    |mean over s of D_s|^2 / |exact|^2
//   spread^2  sum over s of |D_s - mean|^2 / ((seeds - 1) |exact|^2)
//
// So the mean of the squared errors is bias^2 + (seeds - 1) / seeds spread^2.
class SeedSpread {
 public:
  // Bytes of one SeedSpread for results of this shape.
  static int64_t bytes_of(Shape shape);

  void add(const TensorView& result, const TensorView& exact);

  double bias() const;
  double spread() const;  // 0 for one seed

 private:
  std::vector<float> sum_;  // of D_s; floats, as there is one for each method
  double squares_ = 0;      // sum of |D_s|^2
  double exact_square_ = 0;
  int64_t seeds_ = 0;
};

}  // namespace rapt::cli

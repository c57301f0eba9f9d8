#pragma once
// The gradient of rows that are queries and, divided by their lengths, keys.
#include "rapt/tensor.h"

namespace rapt::cli {

// Adds to d_query, a dense tensor of floats, what its rows q get through the unit vectors
// u = q / |q|, whose gradient is d_unit: (d_unit - u (u . d_unit)) / |q|. All have one shape, their
// dtypes may differ. A row of zeros has no direction and gets nothing.
void add_gradient_of_units(const TensorView& query, const TensorView& d_unit, Tensor& d_query);

}  // namespace rapt::cli

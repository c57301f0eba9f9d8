#pragma once
// Numbers in another element type.
#include <optional>
#include <string>

#include "rapt/tensor.h"

namespace rapt::cli {

// A dtype by its name, "bf16", also "bool". Throws usage errors.
DType parse_dtype(const std::string& option, const std::string& name);

// Rounded to nearest among floats. Towards whole numbers fractions are cut and what is too large
// becomes the largest; NaN becomes 0. A boolean is 0 or 1, and true is what is not 0.
Tensor converted(const TensorView& tensor, DType dtype);

// The first element that dtype cannot hold: a finite number that becomes infinite, a fraction or a
// NaN where numbers are whole, a whole number that is rounded, other than 0 and 1 as a boolean.
// Rounding a float to a shorter one is what is asked for, and no loss.
struct Loss {
  int64_t position = 0;  // row-major
  std::string value;
};
std::optional<Loss> loss_of(const TensorView& tensor, DType dtype);

}  // namespace rapt::cli

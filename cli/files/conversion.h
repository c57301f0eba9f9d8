#pragma once
// Numbers in another element type.
#include <optional>
#include <string>

#include "rapt/tensor.h"

namespace rapt::cli {

// A dtype by its name, "bf16", also "bool". Throws usage errors.
DType parse_dtype(const std::string& option, const std::string& name);

// Converts a tensor. Floats are rounded to nearest. For whole numbers fractions are cut, numbers
// that are too large become the largest, and NaN becomes 0. A boolean becomes 0 or 1; any number
// other than 0 becomes true.
Tensor converted(const TensorView& tensor, DType dtype);

// The first element that `dtype` cannot hold: a finite number that becomes infinite; a fraction or
// a NaN in a type of whole numbers; a whole number that is rounded; a number other than 0 and 1 as
// a boolean. Rounding a float to a shorter float counts as no loss.
struct Loss {
  int64_t position = 0;  // row-major
  std::string value;
};
std::optional<Loss> loss_of(const TensorView& tensor, DType dtype);

}  // namespace rapt::cli

#pragma once
// Copies of tensors from one dtype to another.
#include "rapt/tensor.h"

namespace rapt::nn {

// to = from, element by element, whatever the strides. f32, f64, bf16 and f16 become each other
// with one rounding to nearest, ties to even; other dtypes must be equal. The shapes are equal, the
// tensors share no memory unless they are the same, and both are checked already.
void convert(const TensorView& from, const TensorView& to);

}  // namespace rapt::nn

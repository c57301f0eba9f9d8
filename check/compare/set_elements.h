#pragma once
// Writes the chosen numbers of a descriptor into its tensors.
#include "check/problem/descriptor.h"

namespace check {

// `tensor` is dense. In a dimension with stride 0 an element stands for all of that dimension.
void set_elements(const Descriptor& descriptor, InputTensor which, const TensorView& tensor);

}  // namespace check

#pragma once
// Draws elements that are not finite, or near the end of their dtype's range.
#include <string_view>

#include "check/problem/descriptor.h"
#include "check/tensors/random.h"

namespace check {

// An element, or a row, of a tensor that the problem has and that has elements; its number is of
// the kind that the value of the inputs axis names.
ElementSpec drawn_element(const Descriptor& problem, InputTensor tensor, std::string_view kind,
                          Random& random);
// Whether the tensor can have one.
bool has_elements(const Descriptor& problem, InputTensor tensor);

}  // namespace check

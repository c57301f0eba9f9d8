#pragma once
// The elements of a descriptor that get a chosen number: the grammar is in descriptor.h.
#include "check/problem/descriptor.h"
#include "check/problem/scanner.h"

namespace check {

// Whether the elements are in their tensors is checked when the problem is complete: see exists().
std::vector<ElementSpec> parse_elements(Scanner& in);

// Whether the problem has the tensor, and the tensor the element.
bool exists(const ElementSpec& element, const Descriptor& problem);

}  // namespace check

#pragma once
// The masks of a descriptor: its rules masks, or_list, and_list, factor and mask.
#include "check/problem/descriptor.h"
#include "check/problem/scanner.h"

namespace check {

// Reads the masks of a descriptor whose sizes are known. Throws Error(argument).
std::vector<MaskSpec> parse_masks(Scanner& in, const Descriptor& problem);

}  // namespace check

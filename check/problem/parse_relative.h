#pragma once
// The relative positions of a descriptor: the grammar is in descriptor.h.
#include "check/problem/descriptor.h"
#include "check/problem/scanner.h"

namespace check {

RelativeSpec parse_relative(Scanner& in, const Descriptor& problem);

}  // namespace check

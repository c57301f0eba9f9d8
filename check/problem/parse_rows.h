#pragma once
// The row transforms of a descriptor: the grammar is in descriptor.h.
#include "check/problem/descriptor.h"
#include "check/problem/scanner.h"

namespace check {

RowSpec parse_rows(Scanner& in, const Descriptor& problem);

}  // namespace check

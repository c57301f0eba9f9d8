#pragma once
// The method of a descriptor as rapt::make_method() reads it, without tensors: lsh(rounds=2).
#include <string>

#include "check/problem/scanner.h"

namespace check {

// Returns the spec as rapt::to_string() writes it.
std::string parse_method(Scanner& in);

}  // namespace check

#pragma once
// Problems of one line (check/problem/descriptor.h) as arguments of a command, and the memory they
// take.
#include <string>

#include "check/problem/descriptor.h"

namespace rapt::cli {

// Throws a usage error that says at which column the line is not understood.
check::Descriptor parse_problem(const std::string& text);

// How many numbers [dims..., rows, columns] holds; a double, so that no product is too large.
double count_of(const check::Dims& dims, int64_t rows, int64_t columns);

// How many numbers a call returns for each query of each head.
double count_per_query(const check::Descriptor& descriptor);

// Bytes of the inputs, drawn and laid out: a dense tensor and a strided copy of each, of which at
// most every third element is used; and of what masks look at.
double bytes_of_inputs(const check::Descriptor& descriptor);

}  // namespace rapt::cli

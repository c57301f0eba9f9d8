#pragma once
// Problems of one line (check/problem/descriptor.h) as arguments of a command, and the memory they
// take.
#include <string>

#include "check/problem/descriptor.h"

namespace rapt::cli {

// Parses a descriptor. Throws a usage error that names the column of a mistake.
check::Descriptor parse_problem(const std::string& text);

// The number of elements of [dims..., rows, columns], as a double, so that no product overflows.
double count_of(const check::Dims& dims, int64_t rows, int64_t columns);

// The number of elements that a call returns for each query of each head.
double count_per_query(const check::Descriptor& descriptor);

// The bytes of the inputs: a dense tensor and a strided copy of each, in which at most every third
// element is used; of a cache; and of the tensors that masks read.
double bytes_of_inputs(const check::Descriptor& descriptor);

}  // namespace rapt::cli

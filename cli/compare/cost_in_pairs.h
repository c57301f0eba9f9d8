#pragma once
// The cost of an alternative, in pairs of a query and a key whose scores exact attention would
// compute.
#include "cli/compare/contender.h"

namespace rapt::cli {

// Operations of a method that makes sums over keys, over those of a pair, 2 (head_dim +
// value_dim). With F features per row, each row of query and key takes 2 F (value_dim + 1) for the
// sums; favor: and 2 m head_dim for m rows of its projection. Absent for other methods.
std::optional<double> pairs_of_operations(const Method& method, const CompareProblem& problem);

// For an alternative whose measured.weights are set: pairs looked at, or of as many operations.
// `all`: the pairs that exact attention looks at.
double cost_in_pairs(const Contender& alternative, const CompareProblem& problem, double all);

}  // namespace rapt::cli

#pragma once
// Sparse normalisers beside softmax on the same scores, f32, d = 64.
#include <initializer_list>
#include <vector>

#include "ratio/ratio_case.h"

namespace bench {

// Cases by the standard deviation of the scores, which determines how many weights are not 0.
std::vector<RatioCase> sparse_cases(std::initializer_list<int64_t> lengths);

}  // namespace bench

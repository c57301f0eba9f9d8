#pragma once
// Masks as data beside the same masks as formulas: BigBird by its lists of blocks, causal as a
// predicate. f32, d = 64, 2 heads.
#include <vector>

#include "ratio/ratio_case.h"

namespace bench {

std::vector<RatioCase> layout_cases(int64_t n);

}  // namespace bench

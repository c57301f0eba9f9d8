#pragma once
// Measures the calls that are compared, one after the other, with memory that is announced first.
#include <cstdint>

#include "cli/compare/contender.h"
#include "cli/compare/pairs_looked_at.h"

namespace rapt::cli {

struct ComparisonSizes {
  int seeds = 5;       // of methods that draw, and timed rounds
  int64_t rows = 256;  // queries of each head whose exact weights are looked at
};

// Fills measured of all contenders that are not refused, and adds the windows. Returns the CPU
// seconds of all attention calls. Throws Error(memory_limit) before memory is taken, Failure if the
// command is interrupted.
double compare_calls(CompareProblem& problem, Contenders& contenders, const ComparisonSizes& sizes,
                     MemoryBudget& budget);

}  // namespace rapt::cli

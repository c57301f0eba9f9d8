#pragma once
// The chart of `rapt compare`: the error of the output against time.
#include "cli/compare/contender.h"
#include "rapt/viz/chart.h"

namespace rapt::cli {

// A curve for each --method, through the calls of its list; one through the windows of the same
// cost; a line across for the mean of the values. Throws Failure if no call has an error that can
// be drawn.
viz::LineChart compare_chart(const CompareProblem& problem, const Contenders& contenders);

}  // namespace rapt::cli

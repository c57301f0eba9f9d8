#pragma once
// The charts of `rapt plot scaling`: time and memory against length.
#include <vector>

#include "cli/scaling/scaling_run.h"
#include "rapt/viz/chart.h"

namespace rapt::cli {

enum class Tutorial : uint8_t { left_out, shown };

std::vector<viz::LineChart> scaling_charts(const ScalingSettings& settings,
                                           const ScalingResult& result, Tutorial tutorial);

// The bytes of the matrices of scores of all heads, which an exact call does not keep.
double score_matrix_bytes(const ScalingSettings& settings, int64_t n);

// The memory of the machine; -1 where the system does not tell.
int64_t machine_memory();

}  // namespace rapt::cli

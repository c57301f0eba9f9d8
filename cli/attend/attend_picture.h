#pragma once
// The picture of `rapt attend`: the map of one head, with words or ranges on its axes.
#include "cli/attend/attend_captures.h"
#include "cli/attend/attend_problem.h"
#include "rapt/tensor.h"
#include "rapt/viz/heatmap.h"

namespace rapt::cli {

// `map`: the map that the plan requested, [..., rows, columns] or [heads, rows, columns]. With LSH
// attention the picture shows exact weights, and hatches pairs that were not looked at: it computes
// two maps of its head.
viz::Heatmap heatmap_of(const Problem& problem, const CapturePlan& plan, const TensorView& map);

}  // namespace rapt::cli

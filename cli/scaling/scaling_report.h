#pragma once
// What `rapt plot scaling` prints: a table, or JSON.
#include "cli/scaling/scaling_run.h"

namespace rapt::cli {

void print_scaling(const ScalingSettings& settings, const ScalingResult& result);
void print_scaling_json(const ScalingSettings& settings, const ScalingResult& result);

}  // namespace rapt::cli

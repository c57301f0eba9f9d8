#pragma once
// The measurements of `rapt plot scaling`, shortest calls first, within a budget of time and
// memory.
#include <optional>
#include <string>
#include <vector>

#include "cli/scaling/scaling_arguments.h"
#include "cli/scaling/scaling_point.h"

namespace rapt::cli {

struct MeasuredCurve {
  std::string name;
  std::vector<ScalingPoint> points;  // by length
  std::string refused;               // why it cannot be computed; empty: it can
  std::vector<int64_t> left_out;     // lengths without a point
  std::string why_left_out;          // of the first of them
};

struct ScalingResult {
  std::vector<MeasuredCurve> curves;  // exact attention first
  double seconds = 0;                 // of the whole measurement
  double timed = 0;                   // seconds in timed calls
  int64_t new_points = 0;             // those that were measured now

  double peak_gflops() const;  // the greatest that was measured; 0 without points
};

// Throws Failure(data) if no method can be computed, Error(memory_limit) if not even the first
// point of exact attention fits, Error(cancelled) after a signal.
ScalingResult measure_scaling(const ScalingSettings& settings, PointsFile& file);

// The least length from which the curve is faster than exact attention at it and at all longer
// lengths where both were measured; none if it never is.
std::optional<int64_t> crossover(const MeasuredCurve& exact, const MeasuredCurve& curve);

}  // namespace rapt::cli

#pragma once
// The options of `rapt plot scaling`, and the problems that they make.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/measure/bench_measurement.h"
#include "cli/output/chart_output.h"
#include "cli/output/progress.h"

namespace rapt::cli {

struct ScalingArguments {
  std::string what;
  std::vector<std::string> methods, masks;
  std::string lengths, heads, head_dim, dtype, threads, budget, memory_limit;
  std::string points, progress;
  ChartArguments chart;
  bool backward = false, tutorial = false, json = false, force = false;
};

// One way to compute the calls of all lengths.
struct ScalingCurve {
  std::string name;  // "exact", "lsh(rounds=4)", "mask=window(256,0)"
  std::string dtype;
  std::string fields;  // of its descriptors: ":mask=causal:method=lsh(rounds=4)"
};

struct ScalingSettings {
  std::vector<ScalingCurve> curves;  // exact attention first
  std::vector<int64_t> lengths;      // rising
  std::string heads;                 // "2", "8/2"
  int64_t head_dim = 0;
  int threads = 1;
  Passes passes = Passes::forward;
  double budget = 0;  // seconds
  int64_t memory_limit = -1;
  ProgressStyle progress = ProgressStyle::terminal;

  BenchCase problem(const ScalingCurve& curve, int64_t n) const;
  int64_t query_heads() const;
};

void add_scaling_options(CLI::App& app, ScalingArguments& arguments);

// Throws usage errors. Opens nothing.
ScalingSettings scaling_settings(const ScalingArguments& arguments);

}  // namespace rapt::cli

#pragma once
// The measurement of one problem, as `rapt bench` and `rapt plot scaling` make it.
#include <cstdint>

#include "cli/measure/bench_report.h"

namespace rapt::cli {

// The time of forward and backward call together, or of the forward call alone.
enum class Passes : uint8_t { forward, both };

// How many samples are taken, and what is measured beside them.
struct Sampling {
  int samples;
  int of_long_calls;
  bool peak = true;  // of the processor, before and after the samples

  static constexpr double kLongCall = 0.5;  // seconds
  // The first of all calls is a sample from here on: cold caches do not show. A shorter one only
  // warms up.
  static constexpr double kFirstCounts = 0.1;

  int count(double seconds) const { return seconds >= kLongCall ? of_long_calls : samples; }
  int calls(double seconds) const { return count(seconds) + (seconds < kFirstCounts ? 1 : 0); }
};

// Times rows of calls of a millisecond, and counts the memory of the first call, which allocates
// its results. Throws Error(cancelled) after a signal.
BenchResult measured(const BenchCase& one, Sampling sampling, Passes passes = Passes::forward);

// Throws Error(memory_limit) if the inputs and the results of two calls, the repeated one and one
// that allocates, do not fit into the limit; below 0: into the memory that is available.
void require_room(const BenchCase& one, int64_t limit);

}  // namespace rapt::cli

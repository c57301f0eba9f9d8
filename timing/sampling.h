#pragma once
// How often a case is measured, and what of it is kept.
#include <functional>
#include <vector>

#include "timing/clocks.h"

namespace timing {

// Calls sample() up to `most` times, but after the fifth time no longer than half a second: long
// cases need fewer, since each averages over more of what disturbs.
void repeat(int most, const std::function<void()>& sample);

using Clock = double (*)() noexcept;  // seconds

// How many calls of work() make a sample of a millisecond, against which the clock's own 0.3
// microseconds are nothing. Calls it once.
int calls_per_sample(const std::function<void()>& work, Clock clock = thread_cpu_seconds);

// Seconds per call of work(), `calls` of them in a row.
double seconds_per_call(int calls, const std::function<void()>& work,
                        Clock clock = thread_cpu_seconds);

double median(std::vector<double> x);

// The median of the distances from the median: what a sample is typically off, whatever the few
// worst ones are.
double median_deviation(const std::vector<double>& x);

}  // namespace timing

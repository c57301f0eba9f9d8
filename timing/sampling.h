#pragma once
// Repeated measurements of a case, and their statistics.
#include <functional>
#include <vector>

#include "timing/clocks.h"

namespace timing {

// Calls sample() up to `most` times, but stops after half a second once there are five samples:
// long cases need fewer samples, because each averages over more disturbances.
void repeat(int most, const std::function<void()>& sample);

using Clock = double (*)() noexcept;  // seconds

// The number of calls in a sample of a millisecond, beside which the clock's own 0.3 microseconds
// are negligible.
int calls_per_sample(double seconds_per_call);
// The same for calls of work(), which it calls once.
int calls_per_sample(const std::function<void()>& work, Clock clock = thread_cpu_seconds);

// Seconds per call of work(), averaged over `calls` calls.
double seconds_per_call(int calls, const std::function<void()>& work,
                        Clock clock = thread_cpu_seconds);

double median(std::vector<double> x);

// The median of the distances from the median: the typical deviation of a sample, unaffected by a
// few outliers.
double median_deviation(const std::vector<double>& x);

}  // namespace timing

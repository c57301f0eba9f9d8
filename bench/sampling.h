#pragma once
// How often a case is measured, and what of it is kept.
#include <functional>
#include <vector>

namespace bench {

// Calls sample() up to `most` times, but after the fifth time no longer than half a second: long
// cases need fewer, since each averages over more of what disturbs.
void repeat(int most, const std::function<void()>& sample);

// How many calls of work() make a sample of a millisecond, against which the clock's own 0.3
// microseconds are nothing. Calls it once.
int calls_per_sample(const std::function<void()>& work);

// CPU seconds of the calling thread per call of work(), `calls` of them in a row.
double seconds_per_call(int calls, const std::function<void()>& work);

double median(std::vector<double> x);

}  // namespace bench

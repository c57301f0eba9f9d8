#include "timing/sampling.h"

#include <algorithm>
#include <cmath>

namespace timing {

void repeat(int most, const std::function<void()>& sample) {
  constexpr int kFewest = 5;
  constexpr double kSeconds = 0.5;
  const double start = thread_cpu_seconds();
  for (int i = 0; i < most; ++i) {
    if (i >= kFewest && thread_cpu_seconds() - start > kSeconds) return;
    sample();
  }
}

int calls_per_sample(double seconds) {
  constexpr double kSampleSeconds = 1e-3;
  return static_cast<int>(std::ceil(kSampleSeconds / std::max(seconds, 1e-8)));
}

int calls_per_sample(const std::function<void()>& work, Clock clock) {
  return calls_per_sample(seconds_per_call(1, work, clock));
}

double seconds_per_call(int calls, const std::function<void()>& work, Clock clock) {
  const double start = clock();
  for (int i = 0; i < calls; ++i) work();
  return (clock() - start) / calls;
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

double median_deviation(const std::vector<double>& x) {
  const double middle = median(x);
  std::vector<double> distances;
  for (const double one : x) distances.push_back(std::abs(one - middle));
  return median(distances);
}

}  // namespace timing

#include "sampling.h"

#include <algorithm>
#include <cmath>

#include "clocks.h"

namespace bench {

void repeat(int most, const std::function<void()>& sample) {
  constexpr int kFewest = 5;
  constexpr double kSeconds = 0.5;
  const double start = thread_cpu_seconds();
  for (int i = 0; i < most; ++i) {
    if (i >= kFewest && thread_cpu_seconds() - start > kSeconds) return;
    sample();
  }
}

int calls_per_sample(const std::function<void()>& work) {
  constexpr double kSampleSeconds = 1e-3;
  const double seconds = std::max(seconds_per_call(1, work), 1e-8);
  return static_cast<int>(std::ceil(kSampleSeconds / seconds));
}

double seconds_per_call(int calls, const std::function<void()>& work) {
  const double start = thread_cpu_seconds();
  for (int i = 0; i < calls; ++i) work();
  return (thread_cpu_seconds() - start) / calls;
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

}  // namespace bench

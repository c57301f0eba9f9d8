#include "fma_peak.h"

#include <algorithm>

#include "clocks.h"
#include "kernels/kernel_table.h"

namespace bench {

double fma_peak_gflops() {
  const rapt::KernelTable<float>& table = rapt::kernels<float>();
  constexpr int64_t kIterations = 20000;
  const double flops = 2.0 * 24 * table.lanes * kIterations;  // 24: see KernelTable::fma_loop
  double best = 0;
  volatile float sink = 0;
  const double end = thread_cpu_seconds() + 0.03;
  double start = thread_cpu_seconds();
  while (start < end) {
    sink = sink + table.fma_loop(kIterations);
    const double now = thread_cpu_seconds();
    best = std::max(best, flops / (now - start) * 1e-9);
    start = now;
  }
  return best;
}

int lanes() { return rapt::kernels<float>().lanes; }

}  // namespace bench

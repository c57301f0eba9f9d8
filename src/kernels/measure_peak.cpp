// What one core of this machine can do, measured: the denominators of every "percent of the peak".
#include <ctime>
#include <vector>

#include "kernels/kernel_table.h"
#include "rapt/instruction_sets.h"

namespace rapt {
namespace {

double seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Core clock now: a chain of dependent multiplications of 3 cycles each on every recent x86 core (a
// chain of additions would be removed at renaming). 0 on other machines.
double clock_ghz() {
#if defined(__x86_64__)
  constexpr int kIterations = 400;
  double elapsed = 0;
  long x = 3;
  for (int pass = 0; pass < 2; ++pass) {  // the first brings code and clock page into the caches
    const double start = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < kIterations; ++i)
      asm volatile("imul %0,%0\n imul %0,%0\n imul %0,%0\n imul %0,%0\n" : "+r"(x));
    elapsed = seconds(CLOCK_MONOTONIC) - start;
  }
  return kIterations * 12 / elapsed * 1e-9;
#else
  return 0;
#endif
}

}  // namespace

MachinePeak measure_peak(double budget) {
  MachinePeak peak = {};
  const KernelTable<float>& table = kernels<float>();
  constexpr int64_t kIterations = 20000;  // about 0.1 ms: short enough to dodge a neighbour
  volatile float sink = 0;
  const double end = seconds(CLOCK_THREAD_CPUTIME_ID) + budget / 2;
  do {
    const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
    sink = sink + table.fma_loop(kIterations);
    const double elapsed = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
    const double gflops = 48.0 * table.lanes * kIterations / elapsed * 1e-9;
    if (gflops > peak.fma_gflops) peak.fma_gflops = gflops;
  } while (seconds(CLOCK_THREAD_CPUTIME_ID) < end);
  peak.clock_ghz = clock_ghz();

  // Four times the last-level cache, at least 128 MiB, so that DRAM has to answer.
  const long l3 = cache_sizes().l3;
  const size_t words = static_cast<size_t>(l3 > (32 << 20) ? 4 * l3 : 128 << 20) / sizeof(uint64_t);
  const std::vector<uint64_t> memory(words, 1);
  uint64_t total = 0;
  const double read_end = seconds(CLOCK_MONOTONIC) + budget / 2;
  do {
    const double start = seconds(CLOCK_MONOTONIC);
    uint64_t sums[8] = {};
    for (size_t i = 0; i + 8 <= words; i += 8)
      for (size_t k = 0; k < 8; ++k) sums[k] += memory[i + k];
    for (const uint64_t s : sums) total += s;
    const double rate = static_cast<double>(words * 8) / (seconds(CLOCK_MONOTONIC) - start) * 1e-9;
    if (rate > peak.read_gb_per_s) peak.read_gb_per_s = rate;
  } while (seconds(CLOCK_MONOTONIC) < read_end);
  volatile uint64_t read_sink = total;
  (void)read_sink;
  return peak;
}

}  // namespace rapt

// Measures the peak rates of one core: the denominators of every "percent of the peak".
#include <algorithm>
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

// The best rate of a loop of `operations`, in 1e9 per second, within `budget` of CPU time.
template <class Loop>
double best_rate(double operations, double budget, const Loop& loop) {
  double best = 0, start = seconds(CLOCK_THREAD_CPUTIME_ID);
  const double end = start + budget;
  do {
    loop();
    const double now = seconds(CLOCK_THREAD_CPUTIME_ID);
    best = std::max(best, operations / (now - start) * 1e-9);
    start = now;
  } while (start < end);
  return best;
}

// The best rate at which this thread reads an array larger than the caches.
double read_gb_per_s(double budget) {
  // Four times the last-level cache, so that reads come from DRAM, within two limits. At least 128
  // MiB, where the size is unknown. At most 256 MiB, because large hosts report hundreds of MiB,
  // which would make this 1.5 GiB and more, while one core mostly fills only the part of the cache
  // that belongs to its group of cores, and that is 96 MiB or less on most of them. Where one piece
  // is larger still, the rate is an upper bound.
  constexpr int64_t kMiB = 1 << 20;
  const int64_t bytes = std::clamp<int64_t>(int64_t{4} * cache_sizes().l3, 128 * kMiB, 256 * kMiB);
  const size_t words = static_cast<size_t>(bytes) / sizeof(uint64_t);
  const std::vector<uint64_t> memory(words, 1);
  double best = 0;
  uint64_t total = 0;
  const double read_end = seconds(CLOCK_MONOTONIC) + budget;
  do {
    const double start = seconds(CLOCK_MONOTONIC);
    uint64_t sums[8] = {};
    for (size_t i = 0; i + 8 <= words; i += 8)
      for (size_t k = 0; k < 8; ++k) sums[k] += memory[i + k];
    for (const uint64_t s : sums) total += s;
    const double rate = static_cast<double>(words * 8) / (seconds(CLOCK_MONOTONIC) - start) * 1e-9;
    best = std::max(best, rate);
  } while (seconds(CLOCK_MONOTONIC) < read_end);
  volatile uint64_t read_sink = total;
  (void)read_sink;
  return best;
}

}  // namespace

double measure_fma_gflops(double budget) {
  const KernelTable<float>& table = kernels<float>();
  constexpr int64_t kIterations = 20000;  // about 0.1 ms: short enough to dodge a neighbour
  const double flops = 2.0 * 24 * table.lanes * kIterations;  // 24: see KernelTable::fma_loop
  volatile float sink = 0;
  return best_rate(flops, budget, [&] { sink = sink + table.fma_loop(kIterations); });
}

double measure_tile_gflops(double budget) {
  const KernelTable<float>& table = kernels<float>();
  if (!table.tile_loop) return 0;
  constexpr int64_t kIterations = 5000;  // as above, at 16 cycles a product
  const double flops = 2.0 * 16 * 16 * 32 * 4 * kIterations;
  return best_rate(flops, budget, [&] { table.tile_loop(kIterations); });
}

MachinePeak measure_peak(double budget) {
  MachinePeak peak = {};
  peak.fma_gflops = measure_fma_gflops(budget / 2);
  peak.clock_ghz = clock_ghz();
  peak.read_gb_per_s = read_gb_per_s(budget / 2);
  return peak;
}

}  // namespace rapt

#include "timing/clocks.h"

#include <algorithm>
#include <ctime>

namespace timing {
namespace {

double seconds(clockid_t clock) noexcept {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

double thread_cpu_seconds() noexcept { return seconds(CLOCK_THREAD_CPUTIME_ID); }

double wall_seconds() noexcept { return seconds(CLOCK_MONOTONIC); }

double core_clock_ghz() noexcept {
#if defined(__x86_64__)
  // A chain of dependent multiplications, each of which takes 3 cycles on every x86 core since 2011
  // (uops.info). The wall time is read without a system call, during which the clock could change.
  constexpr int kIterations = 400, kCyclesPerIteration = 4 * 3;
  double shortest = 1e9;
  long x = 3;
  // Takes the shortest of three: the first loads code and clock page into the caches, and an
  // interrupted one would show too low a clock.
  for (int pass = 0; pass < 3; ++pass) {
    const double start = wall_seconds();
    for (int i = 0; i < kIterations; ++i)
      asm volatile("imul %0,%0\n imul %0,%0\n imul %0,%0\n imul %0,%0\n" : "+r"(x));
    shortest = std::min(shortest, wall_seconds() - start);
  }
  return kIterations * kCyclesPerIteration / shortest * 1e-9;
#else
  return 0;
#endif
}

}  // namespace timing

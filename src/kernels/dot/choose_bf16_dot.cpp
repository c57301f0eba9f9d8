// Decides whether bf16 uses the machine's dot product. The instruction does twice the operations of
// an FMA on AMD Zen 5, and half of them on Intel's cores (where AMX is fast). There is no list of
// cores: the rates of the two loops are compared once per process.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "base/cpu.h"
#include "kernels/kernel_table.h"
#include "rapt/error.h"
#include "rapt/instruction_sets.h"
#if RAPT_HAS_DOT_BF16
#include "kernels/dot/dot_bf16.h"
#endif

namespace rapt {
namespace {

#if RAPT_HAS_DOT_BF16

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

template <class Loop>
double seconds_of(Loop loop, int64_t iterations) {
  const double start = thread_seconds();
  volatile float sink = loop(iterations);
  (void)sink;
  return thread_seconds() - start;
}

// Operations per second of the dot product divided by those of the FMA. The ratio is 2 or 1/2. The
// rates count as distinct when one is 1.4 times (the root of 2) the other in the best times so far,
// twice in a row. A loop takes about 10 us.
double measure_ratio() {
  constexpr int64_t kIterations = 1500;
  constexpr double kApart = 1.4;
  constexpr int kMostRounds = 50;
  const KernelTable<float>& table = kernels<float>();
  double best_fma = 1e9, best_dot = 1e9, ratio = 0;
  for (int round = 0, agreed = 0; round < kMostRounds && agreed < 2; ++round) {
    best_fma = std::min(best_fma, seconds_of(table.fma_loop, kIterations));
    best_dot = std::min(best_dot, seconds_of(isa_avx512_bf16::dot_loop, kIterations));
    const double before = ratio;
    ratio = 2 * best_fma / best_dot;  // 24 chains of 16 lanes: two operations, four operations
    const bool apart = ratio > kApart || ratio < 1 / kApart;
    agreed = apart && round > 0 && (ratio > 1) == (before > 1) ? agreed + 1 : 0;
  }
  return ratio;
}

Bf16Dot decide() {
  Bf16Dot dot;
  const char* wanted = std::getenv("RAPT_BF16");
  dot.forced = wanted && *wanted;
  if (dot.forced && std::strcmp(wanted, "dot") != 0 && std::strcmp(wanted, "fma") != 0)
    throw Error(ErrorCode::unknown_name,
                std::string("RAPT_BF16=") + wanted + " is unknown; expected dot or fma");
  dot.available = cpu_has("avx512_bf16") && uses_avx512();
  if (dot.forced && std::strcmp(wanted, "dot") == 0) {
    if (!dot.available)
      throw Error(
          ErrorCode::unsupported,
          "RAPT_BF16=dot: this machine, or the set that RAPT_ISA names, has no AVX512_BF16");
    dot.used = true;
  }
  if (!dot.available) return dot;
  dot.speed = measure_ratio();
  if (!dot.forced) dot.used = dot.speed > 1.4;
  return dot;
}

#else

Bf16Dot decide() { return {}; }

#endif

}  // namespace

const Bf16Dot& bf16_dot() {
  static const Bf16Dot dot = decide();  // a decision that throws is repeated at the next call
  return dot;
}

const RouteKernels<float>* bf16_dot_route() {
#if RAPT_HAS_DOT_BF16
  if (bf16_dot().used) return &isa_avx512_bf16::route();
#endif
  return nullptr;
}

double measure_bf16_dot_gflops([[maybe_unused]] double budget) {
#if RAPT_HAS_DOT_BF16
  if (!bf16_dot().available) return 0;
  constexpr int64_t kIterations = 20000;
  double best = 1e9;
  const double end = thread_seconds() + budget;
  do best = std::min(best, seconds_of(isa_avx512_bf16::dot_loop, kIterations));
  while (thread_seconds() < end);
  return 24.0 * 16 * 4 * kIterations / best * 1e-9;
#else
  return 0;
#endif
}

}  // namespace rapt

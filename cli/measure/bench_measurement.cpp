#include "cli/measure/bench_measurement.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "cli/measure/described_problem.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "timing/backward_problem.h"
#include "timing/peak.h"
#include "timing/problem.h"
#include "timing/sampling.h"

namespace rapt::cli {
namespace {

// Long enough for hundreds of loops, and too short to warm the core up for the problem.
constexpr double kPeakSeconds = 0.03;
constexpr double kLongCall = 0.5;  // seconds

}  // namespace

BenchResult measured(const BenchCase& one, Sampling sampling, Passes passes) {
  Context context;
  context.threads = one.threads;
  context.cancel = &interruption();
  timing::Problem problem(one.problem, context);
  std::optional<timing::BackwardProblem> backward;
  if (passes == Passes::both) backward.emplace(one.problem, BackwardPasses::one, context);
  BenchResult result;
  result.problem = one;
  result.plan = problem.plan();
  const auto instruction = timing::peak_instruction(result.plan, one.problem.dtype);
  // Wall time for several threads; for one thread its CPU time, which excludes time taken by other
  // processes.
  const timing::Clock clock =
      result.plan.threads == 1 ? timing::thread_cpu_seconds : timing::wall_seconds;
  const auto call = [&] {
    problem.call();
    if (backward) backward->call();
  };
  // Warms up pages, caches and the clock.
  const double first = timing::seconds_per_call(1, call, clock);
  const bool is_long = first >= kLongCall;
  if (!is_long) result.calls = timing::calls_per_sample(call, clock);
  const int samples = is_long ? sampling.of_long_calls : sampling.samples;
  double peak = timing::peak_gflops(instruction, kPeakSeconds);
  for (int i = 0; i < samples; ++i) {
    stop_if_interrupted();
    result.seconds.push_back(timing::seconds_per_call(result.calls, call, clock));
  }
  peak = std::max(peak, timing::peak_gflops(instruction, kPeakSeconds));
  result.median = timing::median(result.seconds);
  result.deviation = timing::median_deviation(result.seconds);
  if (result.plan.allowed_scores >= 0 && one.problem.method.empty() && !backward)
    result.gflops = 1e-9 * problem.useful_flops() / result.median;
  result.peak_name = timing::name_of(instruction);
  result.peak_gflops = peak * result.plan.threads;
  result.growth = growth_by([&] {
    problem.call_that_allocates();
    if (backward) backward->call_that_allocates();
  });
  return result;
}

void require_room(const BenchCase& one, int64_t limit) {
  const check::Descriptor& d = one.problem;
  const double results = count_of(d.leading, d.q_len, 1) * count_per_query(d) * 2 *
                         static_cast<double>(sizeof(double));
  constexpr double kMost = 0x1p62;
  MemoryBudget budget(limit);  // the memory of each problem is freed
  budget.take(static_cast<int64_t>(std::min(bytes_of_inputs(d) + results, kMost)), one.name());
}

}  // namespace rapt::cli

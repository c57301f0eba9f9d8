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

// The first call of a problem.
class FirstCall {
 public:
  timing::Observer observer() {
    return [this](const std::function<void()>& call) {
      growth_ = growth_by([&] {
        const double cpu = timing::thread_cpu_seconds(), wall = timing::wall_seconds();
        call();
        cpu_ = timing::thread_cpu_seconds() - cpu, wall_ = timing::wall_seconds() - wall;
      });
    };
  }
  double seconds(timing::Clock clock) const {
    return clock == timing::thread_cpu_seconds ? cpu_ : wall_;
  }
  int64_t growth() const { return growth_; }

 private:
  double cpu_ = 0, wall_ = 0;
  int64_t growth_ = -1;
};

// Takes the samples of a warm call. `first`: the seconds of the first call.
void take_samples(const std::function<void()>& call, timing::Clock clock, Sampling sampling,
                  double first, BenchResult& result) {
  if (first >= Sampling::kFirstCounts) {
    result.seconds.push_back(first);
  } else {
    const double second = timing::seconds_per_call(1, call, clock);
    result.calls = timing::calls_per_sample(second);
    if (result.calls == 1) result.seconds.push_back(second);
  }
  while (result.seconds.size() < static_cast<size_t>(sampling.count(first))) {
    stop_if_interrupted();
    result.seconds.push_back(timing::seconds_per_call(result.calls, call, clock));
  }
}

}  // namespace

BenchResult measured(const BenchCase& one, Sampling sampling, Passes passes) {
  Context context;
  context.threads = one.threads;
  context.cancel = &interruption();
  FirstCall first, first_backward;
  timing::Problem problem(one.problem, context, nullptr, first.observer());
  std::optional<timing::BackwardProblem> backward;
  if (passes == Passes::both)
    backward.emplace(one.problem, BackwardPasses::one, context, nullptr, first_backward.observer());
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
  const auto peak = [&] {
    return sampling.peak ? timing::peak_gflops(instruction, kPeakSeconds) : 0;
  };
  const double peak_before = peak();
  take_samples(call, clock, sampling, first.seconds(clock) + first_backward.seconds(clock), result);
  result.peak_gflops = std::max(peak_before, peak()) * result.plan.threads;
  result.peak_name = timing::name_of(instruction);
  result.median = timing::median(result.seconds);
  result.deviation = timing::median_deviation(result.seconds);
  if (result.plan.allowed_scores >= 0 && one.problem.method.empty() && !backward)
    result.gflops = 1e-9 * problem.useful_flops() / result.median;
  result.growth = std::max(first.growth(), first_backward.growth());
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

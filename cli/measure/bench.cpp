// rapt bench: measures problems from lists of values, or from descriptors of one line each.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/input/arguments.h"
#include "cli/measure/bench_comparison.h"
#include "cli/measure/bench_measurement.h"
#include "cli/measure/bench_report.h"
#include "cli/measure/cpu_model.h"
#include "cli/measure/described_problem.h"
#include "cli/output/narrate.h"
#include "cli/output/tensor_output.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"

namespace rapt::cli {
namespace {

// Whether the problems are those of the older result: --compare without lists.
bool repeats_older(const BenchArguments& a) { return !a.compare.empty() && !names_problems(a); }

void check_bench(const BenchArguments& a) {
  bench_format(a);
  bench_repetitions(a);
  bench_tolerance(a);
  parse_memory_limit(a.memory_limit);
  if (!repeats_older(a)) {
    bench_cases(a);
  } else if (!a.threads.empty()) {
    throw usage_error("--threads: the problems and threads are those of --compare");
  }
}

void run_bench(const BenchArguments& a) {
  const BenchFormat format = bench_format(a);
  const int repetitions = bench_repetitions(a);
  const double tolerance = bench_tolerance(a);
  const int64_t limit = parse_memory_limit(a.memory_limit);
  std::optional<OlderResults> older;
  if (!a.compare.empty()) {
    MemoryBudget budget(limit);
    older.emplace(a.compare, budget);
  }
  const std::vector<BenchCase> cases = repeats_older(a) ? older->cases() : bench_cases(a);
  if (older && older->cpu() != cpu_model())
    narrate("'" + a.compare + "' was measured on another processor: " + older->cpu());

  BenchReport report(format, cases, older.has_value());
  size_t slower = 0, compared = 0;
  for (const BenchCase& one : cases) {
    stop_if_interrupted();
    require_room(one, limit);
    BenchResult result = measured(one, {repetitions, repetitions});
    if (older) result.older = older->of(result, tolerance);
    if (older && !result.older) narrate(one.name() + " is not in '" + a.compare + "'");
    compared += result.older.has_value();
    slower += result.older && result.older->slower;
    report.add(result);
  }
  report.end();
  finish_stdout();
  if (older && compared == 0)
    throw Failure(Exit::differs, "none of the problems is in '" + a.compare + "'",
                  "without lists and descriptors its own problems are measured");
  if (slower == 0) return;
  throw Failure(Exit::differs,
                fmt::format("{} of {} {} slower than in '{}' by more than {:.3g} %", slower,
                            compared, slower == 1 ? "is" : "are", a.compare, 100 * tolerance),
                "measure again with nothing else running before you believe it");
}

}  // namespace

Command add_bench(CLI::App& root) {
  CLI::App* app = root.add_subcommand("bench", "measure how long problems take");
  const auto a = arguments_of<BenchArguments>(*app);
  add_bench_options(*app, *a);
  return {app, [a] { check_bench(*a); }, [a] { run_bench(*a); }};
}

}  // namespace rapt::cli

// rapt compare: how far methods are from exact attention, what they look at, what they cost.
#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/compare/compare_arguments.h"
#include "cli/compare/compare_chart.h"
#include "cli/compare/compare_report.h"
#include "cli/compare/comparison.h"
#include "cli/input/arguments.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

// Throws if no method is left to compare; the others' refusals are in the report.
void require_some(const Contenders& contenders) {
  std::string refusals;
  for (const Contender& contender : contenders.all()) {
    if (contender.role != Role::alternative) continue;
    if (contender.computed()) return;
    refusals += (refusals.empty() ? "" : "; ") + contender.name + ": " + contender.refused;
  }
  throw Failure(Exit::data, "no method accepts this call: " + refusals);
}

void require_small_errors(const Contenders& contenders, double most) {
  std::string beyond;
  for (const Contender& contender : contenders.all()) {
    if (contender.role != Role::alternative || !contender.computed()) continue;
    const double error = output_error(contender);
    if (error <= most) continue;
    beyond += fmt::format("{}{} {:.3g}", beyond.empty() ? "" : ", ", contender.name, error);
  }
  if (!beyond.empty())
    throw Failure(Exit::differs, fmt::format("--max-error {:.6g}: {}", most, beyond));
}

void run_compare(const CompareArguments& a) {
  const double start = timing::thread_cpu_seconds();
  MemoryBudget budget(parse_memory_limit(a.memory_limit));
  TensorInput files(budget, parse_npy_v2(a.npy_v2));
  ChartOutputs charts(a.chart, a.force ? Overwrite::yes : Overwrite::no);
  CompareProblem problem(a, files);
  Contenders contenders(problem, alternative_specs(a.methods), files, in_doubles(a));
  require_some(contenders);
  const ComparisonSizes sizes{compare_seeds(a), compare_rows(a)};
  const double calls = compare_calls(problem, contenders, sizes, budget);
  if (a.json)
    print_json(compare_json(problem, contenders, calls, timing::thread_cpu_seconds() - start));
  else if (!charts.to_stdout())
    std::fputs(compare_text(problem, contenders).c_str(), stdout);
  finish_stdout();
  // After the table, which remains where no error can be drawn.
  if (!a.chart.targets.empty()) charts.draw({compare_chart(problem, contenders)});
  charts.commit();
  if (const std::optional<double> most = most_error(a)) require_small_errors(contenders, *most);
}

}  // namespace

Command add_compare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("compare", "methods against exact attention");
  const auto arguments = arguments_of<CompareArguments>(*app);
  add_compare_options(*app, *arguments);
  return {app, [arguments] { check_compare_usage(*arguments); },
          [arguments] { run_compare(*arguments); }};
}

}  // namespace rapt::cli

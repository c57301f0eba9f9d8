// rapt plot scaling: time and memory of methods against the length of a call.
#include "cli/commands.h"
#include "cli/scaling/scaling_arguments.h"
#include "cli/scaling/scaling_chart.h"
#include "cli/scaling/scaling_report.h"
#include "cli/scaling/scaling_run.h"

namespace rapt::cli {
namespace {

void run_plot(const ScalingArguments& a) {
  const ScalingSettings settings = scaling_settings(a);
  ChartOutputs charts(a.chart, a.force ? Overwrite::yes : Overwrite::no);
  PointsFile points(a.points);
  const ScalingResult result = measure_scaling(settings, points);
  charts.draw(scaling_charts(settings, result, a.tutorial ? Tutorial::shown : Tutorial::left_out));
  if (a.json)
    print_scaling_json(settings, result);
  else if (!charts.to_stdout())
    print_scaling(settings, result);
  finish_stdout();
  charts.commit();
}

}  // namespace

Command add_plot(CLI::App& root) {
  CLI::App* app = root.add_subcommand("plot", "measure time and memory against length");
  const auto a = arguments_of<ScalingArguments>(*app);
  add_scaling_options(*app, *a);
  app->footer(
      "Times are medians as of rapt bench: CPU time of the thread, wall time where several work.\n"
      "Memory is what a call that allocates adds to what the process holds, less the results of "
      "the\n"
      "forward call alone, and at least its workspace: small calls find room in pages that are "
      "there.\n"
      "With --backward, results are included. Shorter calls come first; a point that would not "
      "fit\n"
      "into the budget, by the points before it, is left out. --lengths names longer calls.\n"
      "From the crossover on a method is faster than exact attention at every length measured.\n\n"
      "  rapt plot scaling --method favor --method \"mask=window(256,0)\" --output scaling.svg\n"
      "  rapt plot scaling --method \"favor(features={64,256})\" --budget 10 --output -\n"
      "  rapt plot scaling --method \"lsh(keys=separate)\" --budget 600 --points points.jsonl "
      "--json");
  return {app, [a] { scaling_settings(*a); }, [a] { run_plot(*a); }};
}

}  // namespace rapt::cli

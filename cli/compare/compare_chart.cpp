#include "cli/compare/compare_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/compare/compare_report.h"
#include "cli/process/failure.h"
#include "timing/sampling.h"

namespace rapt::cli {
namespace {

double forward_seconds(const Contender& contender) {
  return timing::median(contender.measured.forward);
}

// "window", or with which keys if both kinds are compared.
std::string named_by_keys(const std::string& name, Exactly exactly, const Contenders& contenders) {
  const bool both = std::ranges::any_of(
      contenders.all(), [&](const Contender& c) { return c.exactly != exactly && c.computed(); });
  return both && exactly == Exactly::shared_keys ? name + ", shared keys" : name;
}

void add_point(viz::Series& series, const Contender& contender) {
  series.x.push_back(forward_seconds(contender));
  series.y.push_back(output_error(contender));
}

// The windows of the same cost, from few pairs to many.
viz::Series windows_of(Exactly exactly, const Contenders& contenders) {
  std::vector<const Contender*> windows;
  for (const Contender& c : contenders.all())
    if (c.role == Role::window && c.exactly == exactly && c.computed()) windows.push_back(&c);
  std::ranges::sort(windows, {}, [](const Contender* c) { return c->measured.weights[0].pairs; });
  viz::Series series{.name = named_by_keys("window", exactly, contenders), .dots = true};
  for (const Contender* window : windows) add_point(series, *window);
  return series;
}

std::vector<viz::Series> curves_of(const Contenders& contenders) {
  std::vector<viz::Series> curves;
  for (const Contender& c : contenders.all()) {
    if (c.role != Role::alternative || !c.computed()) continue;
    const std::string& name = c.alternative->spec().list;
    if (curves.empty() || curves.back().name != name)
      curves.push_back({.name = name, .dots = true});
    add_point(curves.back(), c);
  }
  for (const Exactly exactly : {Exactly::plain, Exactly::shared_keys})
    if (viz::Series windows = windows_of(exactly, contenders); !windows.x.empty())
      curves.push_back(std::move(windows));
  return curves;
}

std::string conditions_of(const CompareProblem& problem, const Contenders& contenders) {
  std::string text = fmt::format("{}: {} {}", problem.input_text(), name_of(problem.dtype()),
                                 to_string(problem.output_shape()));
  for (const std::string& mask : problem.masks()) text += ", " + mask;
  for (const Contender& c : contenders.all())
    if (c.role == Role::exact && c.computed())
      text += fmt::format("; {}: {:.3g} ms", c.name, 1e3 * forward_seconds(c));
  return text + "; one thread.";
}

}  // namespace

viz::LineChart compare_chart(const CompareProblem& problem, const Contenders& contenders) {
  viz::LineChart chart;
  chart.title = "Error of the output against time";
  chart.x_axis = {.label = "CPU time of a call",
                  .scale = viz::AxisScale::log10,
                  .unit = viz::AxisUnit::seconds};
  chart.y_axis.label = "relative error";
  chart.series = curves_of(contenders);
  const auto some_error = [&](const auto& suits) {
    return std::ranges::any_of(chart.series, [&](const viz::Series& series) {
      return std::ranges::any_of(series.y, suits);
    });
  };
  if (!some_error([](double y) { return std::isfinite(y); }))
    throw Failure(Exit::data, "--output: no method has a finite error, which could be drawn");
  // A logarithmic axis has no 0, which is the error of an exact method.
  if (some_error([](double y) { return std::isfinite(y) && y > 0; }))
    chart.y_axis.scale = viz::AxisScale::log10;
  for (const Contender& c : contenders.all())
    if (c.role == Role::mean && c.computed())
      chart.lines.push_back({named_by_keys("mean", c.exactly, contenders), output_error(c)});
  chart.note = conditions_of(problem, contenders);
  return chart;
}

}  // namespace rapt::cli

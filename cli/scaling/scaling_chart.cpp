#include "cli/scaling/scaling_chart.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/measure/cpu_model.h"

namespace rapt::cli {
namespace {

// The memory of n x n scores that tutorials tell: a table in GB, and n * n * 4 bytes.
constexpr std::pair<double, double> kTutorialTable[] = {
    {512, 0.5e9}, {4096, 16e9}, {32768, 1000e9}};

std::string conditions(const ScalingSettings& s) {
  std::string mask = s.curves.front().fields;  // ":mask=causal"
  if (!mask.empty()) mask.replace(0, 1, ", ");
  return fmt::format(
      "{} heads, head_dim {}, {}, {} {}; {}. Points are measured, dashes are computed.", s.heads,
      s.head_dim, s.curves.front().dtype + mask, s.threads, s.threads == 1 ? "thread" : "threads",
      cpu_model());
}

// What the operations of exact attention would take at the measured peak.
viz::Series at_the_peak(const ScalingResult& result) {
  viz::Series series{.name = "exact, at the peak", .estimate = true};
  const double peak = 1e9 * result.peak_gflops();
  for (const ScalingPoint& point : result.curves.front().points)
    if (point.flops > 0 && peak > 0) {
      series.x.push_back(static_cast<double>(point.n));
      series.y.push_back(point.flops / peak);
    }
  return series;
}

viz::LineChart time_chart(const ScalingSettings& s, const ScalingResult& result) {
  viz::LineChart chart;
  chart.title = s.passes == Passes::both ? "Time of forward and backward call" : "Time of a call";
  chart.x_axis = {.label = "queries and keys", .scale = viz::AxisScale::log2};
  chart.y_axis = {.label = s.threads == 1 ? "CPU time" : "time",
                  .scale = viz::AxisScale::log10,
                  .unit = viz::AxisUnit::seconds};
  for (const MeasuredCurve& curve : result.curves) {
    viz::Series series{.name = curve.name, .dots = true};
    for (const ScalingPoint& point : curve.points) {
      series.x.push_back(static_cast<double>(point.n));
      series.y.push_back(point.seconds);
    }
    if (!series.x.empty()) chart.series.push_back(std::move(series));
  }
  if (s.passes == Passes::forward) chart.series.push_back(at_the_peak(result));
  return chart;
}

viz::LineChart memory_chart(const ScalingSettings& s, const ScalingResult& result,
                            Tutorial tutorial) {
  viz::LineChart chart;
  chart.title = s.passes == Passes::both ? "Memory of the calls beside their inputs"
                                         : "Memory of a call beside inputs and results";
  chart.x_axis = {.label = "queries and keys", .scale = viz::AxisScale::log2};
  chart.y_axis = {
      .label = "memory grown", .scale = viz::AxisScale::log2, .unit = viz::AxisUnit::bytes};
  for (const MeasuredCurve& curve : result.curves) {
    viz::Series series{.name = curve.name, .dots = true};
    for (const ScalingPoint& point : curve.points) {
      series.x.push_back(static_cast<double>(point.n));
      series.y.push_back(static_cast<double>(point.growth));
    }
    if (!series.x.empty()) chart.series.push_back(std::move(series));
  }
  viz::Series matrices{.name = "matrices of scores", .estimate = true};
  viz::Series formula{.name = "tutorials: formula", .estimate = true};
  for (const int64_t n : s.lengths) {
    const auto length = static_cast<double>(n);
    matrices.x.push_back(length);
    matrices.y.push_back(score_matrix_bytes(s, n));
    formula.x.push_back(length);
    formula.y.push_back(length * length * 4);
  }
  chart.series.push_back(std::move(matrices));
  if (tutorial == Tutorial::shown) {
    viz::Series table{.name = "tutorials: table", .estimate = true};
    for (const auto& [n, bytes] : kTutorialTable) {
      table.x.push_back(n);
      table.y.push_back(bytes);
    }
    chart.series.push_back(std::move(formula));
    chart.series.push_back(std::move(table));
  }
  if (const int64_t memory = machine_memory(); memory > 0)
    chart.lines = {{"memory of the machine", static_cast<double>(memory)}};
  return chart;
}

}  // namespace

double score_matrix_bytes(const ScalingSettings& s, int64_t n) {
  const auto length = static_cast<double>(n);
  const double bytes = s.curves.front().dtype == "f64" ? 8 : 4;
  return bytes * static_cast<double>(s.query_heads()) * length * length;
}

int64_t machine_memory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && size > 0 ? pages * size : -1;
}

std::vector<viz::LineChart> scaling_charts(const ScalingSettings& settings,
                                           const ScalingResult& result, Tutorial tutorial) {
  std::vector<viz::LineChart> charts = {time_chart(settings, result),
                                        memory_chart(settings, result, tutorial)};
  charts.back().note = conditions(settings);
  return charts;
}

}  // namespace rapt::cli

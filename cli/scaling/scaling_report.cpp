#include "cli/scaling/scaling_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/measure/cpu_model.h"
#include "cli/output/tensor_text.h"
#include "cli/process/memory.h"
#include "cli/scaling/scaling_chart.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string scaling_time(double seconds) {
  return seconds >= 1      ? fmt::format("{:.3g} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.3g} ms", 1e3 * seconds)
                           : fmt::format("{:.3g} us", 1e6 * seconds);
}

void print_table(const ScalingSettings& s, const ScalingResult& result, const char* what,
                 const std::function<std::string(const ScalingPoint&)>& text) {
  fmt::print("| {} |", what);
  for (const MeasuredCurve& curve : result.curves) fmt::print(" {} |", curve.name);
  fmt::print("\n|---|");
  for (size_t k = 0; k < result.curves.size(); ++k) fmt::print("---|");
  fmt::print("\n");
  for (const int64_t n : s.lengths) {
    fmt::print("| {} |", n);
    for (const MeasuredCurve& curve : result.curves) {
      const auto point = std::ranges::find(curve.points, n, &ScalingPoint::n);
      fmt::print(" {} |", point == curve.points.end() ? "" : text(*point));
    }
    fmt::print("\n");
  }
  fmt::print("\n");
}

std::string crossover_text(const MeasuredCurve& exact, const MeasuredCurve& curve) {
  const bool compared = std::ranges::any_of(curve.points, [&](const ScalingPoint& point) {
    return std::ranges::find(exact.points, point.n, &ScalingPoint::n) != exact.points.end();
  });
  if (!compared) return "not compared with exact attention";
  const std::optional<int64_t> from = crossover(exact, curve);
  return from ? fmt::format("faster than exact attention from {} on", *from)
              : "never faster than exact attention";
}

}  // namespace

void print_scaling(const ScalingSettings& s, const ScalingResult& result) {
  print_table(s, result, "time", [](const ScalingPoint& p) { return scaling_time(p.seconds); });
  print_table(s, result, "memory grown", [](const ScalingPoint& p) {
    return p.growth < 0 ? "?" : bytes_text(static_cast<double>(p.growth));
  });
  const MeasuredCurve& exact = result.curves.front();
  for (const MeasuredCurve& curve : result.curves) {
    if (!curve.refused.empty()) {
      fmt::print("{}: {}\n", curve.name, curve.refused);
      continue;
    }
    if (&curve != &exact) fmt::print("{}: {}\n", curve.name, crossover_text(exact, curve));
    if (!curve.left_out.empty())
      fmt::print("{}: from {} on left out, {}\n", curve.name, curve.left_out.front(),
                 curve.why_left_out);
  }
}

void print_scaling_json(const ScalingSettings& s, const ScalingResult& result) {
  Json curves = Json::array();
  const MeasuredCurve& exact = result.curves.front();
  for (const MeasuredCurve& curve : result.curves) {
    Json points = Json::array();
    for (const ScalingPoint& point : curve.points)
      points.push_back({{"n", point.n},
                        {"median_seconds", point.seconds},
                        {"mad_seconds", point.deviation},
                        {"growth_bytes", point.growth < 0 ? Json() : Json(point.growth)},
                        {"wall_seconds", point.wall}});
    const std::optional<int64_t> from = crossover(exact, curve);
    curves.push_back(
        {{"method", curve.name},
         {"crossover", &curve != &exact && from ? Json(*from) : Json()},
         {"refused", curve.refused.empty() ? Json() : Json(curve.refused)},
         {"points", points},
         {"left_out", curve.left_out},
         {"why_left_out", curve.why_left_out.empty() ? Json() : Json(curve.why_left_out)}});
  }
  const int64_t memory = machine_memory();
  const Json document{{"schema", "rapt.scaling/1"},
                      {"build", build_info()},
                      {"cpu", cpu_model()},
                      {"isa", chosen_instruction_set()},
                      {"problem", s.problem(s.curves.front(), s.lengths.front()).name()},
                      {"backward", s.passes == Passes::both},
                      {"threads", s.threads},
                      {"lengths", s.lengths},
                      {"budget_seconds", s.budget},
                      {"seconds", result.seconds},
                      {"timed_seconds", result.timed},
                      {"new_points", result.new_points},
                      {"peak_gflops", result.peak_gflops()},
                      {"machine_bytes", memory < 0 ? Json() : Json(memory)},
                      {"curves", curves}};
  print_json(document);
}

}  // namespace rapt::cli

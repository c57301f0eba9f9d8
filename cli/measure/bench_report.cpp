#include "cli/measure/bench_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/measure/cpu_model.h"
#include "cli/output/tensor_text.h"
#include "cli/process/memory.h"
#include "rapt/instruction_sets.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string chosen_isa() {
  for (const InstructionSet& set : instruction_sets())
    if (set.chosen) return set.name;
  return "";
}

// The fields that all results of a run share.
Json run_json() {
  return Json{{"schema", "rapt.bench/1"},
              {"build", build_info()},
              {"cpu", cpu_model()},
              {"isa", chosen_isa()}};
}

Json json_of(const BenchResult& r) {
  const bool counted = r.gflops >= 0;
  Json json;
  json["descriptor"] = to_string(r.problem.problem);
  json["threads"] = r.problem.threads;
  json["plan"] = Json{{"isa", r.plan.isa},
                      {"kernel", r.plan.kernel},
                      {"threads", r.plan.threads},
                      {"workspace_bytes", r.plan.workspace_bytes},
                      {"result_bytes", r.plan.result_bytes}};
  json["time"] = Json{{"median_seconds", r.median},
                      {"mad_seconds", r.deviation},
                      {"samples", r.seconds},
                      {"calls", r.calls},
                      {"gflops", counted ? Json(r.gflops) : Json()}};
  json["peak"] = Json{{"instruction", r.peak_name},
                      {"gflops", r.peak_gflops},
                      {"percent", counted ? Json(r.percent()) : Json()}};
  json["memory"] = Json{{"growth_bytes", r.growth < 0 ? Json() : Json(r.growth)}};
  json["older"] = r.older ? Json{{"median_seconds", r.older->median},
                                 {"ratio", r.ratio()},
                                 {"slower", r.older->slower}}
                          : Json();
  return json;
}

std::string milliseconds(double seconds) { return fmt::format("{:.4g}", 1e3 * seconds); }

// A field of a CSV file (RFC 4180).
std::string in_csv(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

void print_csv(const BenchResult& r) {
  fmt::print("{},{},{},{},{},{},{},{}", in_csv(to_string(r.problem.problem)), r.problem.threads,
             r.plan.isa, in_csv(r.plan.kernel), r.seconds.size(), r.calls, r.median, r.deviation);
  if (r.gflops >= 0) {
    fmt::print(",{},{},{},{}", r.gflops, in_csv(r.peak_name), r.peak_gflops, r.percent());
  } else {
    fmt::print(",,{},{},", in_csv(r.peak_name), r.peak_gflops);
  }
  fmt::print(",{},{}", r.growth < 0 ? "" : std::to_string(r.growth), r.plan.workspace_bytes);
  if (r.older) {
    fmt::print(",{},{}\n", r.older->median, r.ratio());
  } else {
    fmt::print(",,\n");
  }
}

constexpr const char* kCsvHeader =
    "descriptor,threads,isa,kernel,samples,calls,median_seconds,mad_seconds,gflops,peak,"
    "peak_gflops,percent,growth_bytes,workspace_bytes,older_median_seconds,ratio\n";

}  // namespace

BenchReport::BenchReport(BenchFormat format, const std::vector<BenchCase>& cases, bool compared)
    : format_(format), compared_(compared), width_(std::string("problem").size()) {
  for (const BenchCase& one : cases) width_ = std::max(width_, one.name().size());
  if (format_ == BenchFormat::csv) fmt::print("{}", kCsvHeader);
  if (format_ != BenchFormat::md) return;
  fmt::print("| {:<{}} | {:>9} | {:>9} | {:>7} | {:>9} | {:>10} |{}\n", "problem", width_, "ms",
             "+-", "GFLOP/s", "% of peak", "memory", compared_ ? " ratio |" : "");
  fmt::print("| {:-<{}} | --------: | --------: | ------: | --------: | ---------: |{}\n", "",
             width_, compared_ ? " ----: |" : "");
}

void BenchReport::print_row(const BenchResult& r) const {
  const bool counted = r.gflops >= 0;
  fmt::print("| {:<{}} | {:>9} | {:>9} | {:>7} | {:>9} | {:>10} |", r.problem.name(), width_,
             milliseconds(r.median), milliseconds(r.deviation),
             counted ? fmt::format("{:.1f}", r.gflops) : "",
             counted ? fmt::format("{:.1f}", r.percent()) : "",
             r.growth < 0 ? "" : bytes_text(static_cast<double>(r.growth)));
  if (compared_) fmt::print(" {:>5} |", r.older ? fmt::format("{:.2f}", r.ratio()) : "");
  fmt::print("\n");
}

void BenchReport::add(const BenchResult& result) {
  switch (format_) {
    case BenchFormat::md:
      print_row(result);
      break;
    case BenchFormat::csv:
      print_csv(result);
      break;
    case BenchFormat::jsonl: {
      Json line = run_json();
      line.update(json_of(result));
      fmt::print("{}\n", line.dump());
      break;
    }
    case BenchFormat::json:
      results_.push_back(json_of(result));
      break;
  }
  std::fflush(stdout);  // the next result takes a while
}

void BenchReport::end() {
  if (format_ == BenchFormat::md)
    fmt::print("\nrapt {}, {}, {}\n", build_info(), cpu_model(), chosen_isa());
  if (format_ != BenchFormat::json) return;
  Json document = run_json();
  document["problems"] = std::move(results_);
  print_json(document);
}

}  // namespace rapt::cli

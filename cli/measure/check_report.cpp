#include "cli/measure/check_report.h"

#include <fmt/format.h>

#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

Json listed(const std::optional<std::vector<int64_t>>& chosen) {
  return chosen ? Json(*chosen) : Json();
}

}  // namespace

double CheckReport::gflops() const {
  if (plan.allowed_scores < 0 || !descriptor.method.empty()) return -1;
  return 2e-9 * static_cast<double>(descriptor.head_dim + descriptor.value_dim) *
         static_cast<double>(plan.allowed_scores) / cpu_seconds;
}

std::string check_text(const CheckReport& r) {
  std::string text = to_string(r.descriptor) + "\n";
  const auto line = [&](const std::string& name, const std::string& what) {
    text += fmt::format("  {:<12} {}\n", name, what);
  };
  line("compared", text_of(r.sample, r.descriptor));
  bool of_gradients = false;
  for (const check::Compared& tensor : r.comparison.tensors) {
    const check::Verdict& v = tensor.verdict;
    if (!of_gradients && r.gradient_sample && std::string_view(tensor.name).starts_with("d_")) {
      of_gradients = true;
      line("gradients", "of " + text_of(*r.gradient_sample, r.descriptor));
    }
    line(tensor.name, v.ok ? fmt::format("error {:.2e} of {:.2e}, rms {:.2e} of {:.2e}",
                                         v.error.max, v.allowed.max, v.error.rms, v.allowed.rms)
                           : "DIFFERS: " + v.message);
  }
  std::string speed = fmt::format("{:.3g} ms", 1e3 * r.cpu_seconds);
  if (r.gflops() >= 0)
    speed += fmt::format(", {:.1f} GFLOP/s, {:.1f} % of the f32 FMA peak of {:.1f}", r.gflops(),
                         100 * r.gflops() / r.peak_gflops, r.peak_gflops);
  line("speed", fmt::format("{} ({}, {}, one thread)", speed, r.plan.isa, r.plan.kernel));
  line("result", r.comparison.ok() ? "ok" : "differs");
  return text;
}

Json check_json(const CheckReport& r) {
  Json problem;
  problem["descriptor"] = to_string(r.descriptor);
  problem["ok"] = r.comparison.ok();
  problem["compared"] = Json{{"heads", listed(r.sample.heads)}, {"rows", listed(r.sample.rows)}};
  problem["gradients"] = r.gradient_sample ? Json{{"heads", listed(r.gradient_sample->heads)},
                                                  {"rows", listed(r.gradient_sample->rows)}}
                                           : Json();
  problem["tensors"] = Json::array();
  for (const check::Compared& tensor : r.comparison.tensors) {
    const check::Verdict& v = tensor.verdict;
    problem["tensors"].push_back(Json{{"name", tensor.name},
                                      {"ok", v.ok},
                                      {"error", v.error.max},
                                      {"allowed", v.allowed.max},
                                      {"rms_error", v.error.rms},
                                      {"rms_allowed", v.allowed.rms},
                                      {"message", v.ok ? Json() : Json(v.message)}});
  }
  problem["plan"] = Json{{"isa", r.plan.isa}, {"kernel", r.plan.kernel}};
  problem["time"] = Json{{"cpu_seconds", r.cpu_seconds},
                         {"calls", r.calls},
                         {"gflops", r.gflops() < 0 ? Json() : Json(r.gflops())}};
  problem["peak"] =
      Json{{"fma_gflops", r.peak_gflops},
           {"percent", r.gflops() < 0 ? Json() : Json(100 * r.gflops() / r.peak_gflops)}};
  return problem;
}

Json check_document(const std::vector<Json>& problems) {
  Json document;
  document["schema"] = "rapt.check/1";
  document["build"] = build_info();
  document["problems"] = problems;
  return document;
}

}  // namespace rapt::cli

// The summary of `rapt attend`, as text and as JSON.
#include "cli/attend/attend_report.h"

#include <fmt/format.h>

#include "cli/output/tensor_text.h"
#include "cli/process/memory.h"
#include "rapt/instruction_sets.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.2f} ms", 1e3 * seconds);
  return fmt::format("{:.2f} s", seconds);
}

bool small(const TensorView& output) {
  const int64_t heads_shown = output.rank > 2 ? output.count() : 1;
  return output.shape[output.rank - 1] <= kMaxShown && output.shape[output.rank - 2] <= kMaxShown &&
         heads_shown <= kMaxShown * kMaxShown;
}

// The matrices of a small tensor, one after the other, with the index of each.
std::string matrices_text(const TensorView& tensor) {
  const int64_t rows = tensor.shape[tensor.rank - 2], columns = tensor.shape[tensor.rank - 1];
  if (rows * columns == 0) return "  (empty)\n";
  std::string text;
  for (int64_t m = 0; m < tensor.count() / (rows * columns); ++m) {
    std::string index;
    int64_t rest = m;
    for (int d = tensor.rank - 3; d >= 0; --d) {
      index = std::to_string(rest % tensor.shape[d]) + (index.empty() ? "" : ",") + index;
      rest /= tensor.shape[d];
    }
    if (!index.empty()) text += "  head " + index + ":\n";
    const auto bytes = static_cast<char*>(tensor.data) + m * rows * columns * size_of(tensor.dtype);
    const int64_t shape[] = {rows, columns};
    text += matrix_text(TensorView(bytes, tensor.dtype, shape, true), "  ");
  }
  return text;
}

std::string time_text(const AttendReport& r) {
  std::string time =
      fmt::format("{} (CPU {})", seconds_text(r.wall_seconds), seconds_text(r.cpu_seconds));
  if (r.flops() > 0) {
    time += fmt::format(", {:.3g} GFLOP/s a thread on the scores that the masks allow",
                        1e-9 * r.flops() / r.cpu_seconds);
  }
  return time;
}

std::string gradients_text(const GradientReport& r) {
  std::string text;
  for (const NumberGradient& number : r.numbers)
    text += fmt::format("{} {:.6g}, ", number.of, number.value);
  if (r.computed)
    text += fmt::format("{} (CPU {}), ", seconds_text(r.wall_seconds), seconds_text(r.cpu_seconds));
  return text + fmt::format("{} for results, {} for work",
                            bytes_text(static_cast<double>(r.result_bytes)),
                            bytes_text(static_cast<double>(r.workspace_bytes)));
}

double percent_of_peak(const AttendReport& report) {
  return 100 * 1e-9 * report.flops() / report.cpu_seconds / *report.peak_gflops;
}

// The request: inputs and options.
void add_call(const AttendReport& r, Json& document) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  document["text"] = or_null(r.text);
  document["query"] = json_type(r.query);
  document["key"] = json_type(r.key);
  document["value"] = json_type(r.value);
  document["scale"] = r.scale;
  document["masks"] = r.masks;
  document["scores"] = r.scores;
  document["bias"] = or_null(r.bias);
  document["bias_order"] =
      r.bias.empty() ? Json() : Json(kBiasOrderNames[static_cast<int>(r.bias_order)]);
  document["normalizer"] = r.normalizer;
  document["method"] = or_null(r.method);
  document["cosine"] = r.cosine > 0 ? Json(r.cosine) : Json();
  document["rotary"] = or_null(r.rotary);
  document["relative"] = or_null(r.relative);
  document["packed"] = r.packed;
  document["precision"] = r.precision;
  document["invariant"] = r.invariant;
  Json& dropout = document["dropout"];
  if (r.dropout.probability > 0) {
    dropout["probability"] = r.dropout.probability;
    dropout["seed"] = r.dropout.seed;
  }
}

Json top_k_json(const AttendReport& r) {
  Json top;
  if (!r.top_keys.defined()) return top;
  const bool few = few_queries(r.top_keys);
  top["k"] = r.top_keys.shape[r.top_keys.rank - 1];
  top["keys"] = few ? json_values(r.top_keys) : Json();
  top["weights"] = few ? json_values(r.top_weights) : Json();
  return top;
}

Json files_json(const std::vector<TensorOutputs::Written>& files) {
  Json list = Json::array();
  for (const TensorOutputs::Written& file : files) {
    list.push_back(Json{{"what", file.what},
                        {"path", file.path},
                        {"name", file.name.empty() ? Json() : Json(file.name)}});
  }
  return list;
}

Json plan_json(const AttendReport& r) {
  Json plan;
  plan["isa"] = r.plan.isa;
  plan["kernel"] = r.plan.kernel;
  plan["threads"] = r.plan.threads;
  plan["tile_queries"] = r.plan.tile_queries;
  plan["block_keys"] = r.plan.block_keys;
  plan["tiles_computed"] = r.plan.tiles_computed;
  plan["tiles_partial"] = r.plan.tiles_partial;
  plan["tiles_skipped"] = r.plan.tiles_skipped;
  plan["allowed_scores"] = r.plan.allowed_scores < 0 ? Json() : Json(r.plan.allowed_scores);
  plan["workspace_bytes"] = r.plan.workspace_bytes;
  plan["result_bytes"] = r.plan.result_bytes;
  plan["matrix_bytes"] = r.plan.matrix_bytes;
  plan["group_heads"] = r.plan.group_heads;
  plan["method_pairs"] = r.method.empty() ? Json() : Json(r.plan.method_pairs);
  const double estimate = r.computed ? -1 : r.estimated_seconds();
  plan["estimated_seconds"] = estimate < 0 ? Json() : Json(estimate);
  return plan;
}

Json time_json(const AttendReport& r) {
  Json time;
  if (!r.computed) return time;
  time["read_seconds"] = r.read_seconds;
  time["wall_seconds"] = r.wall_seconds;
  time["cpu_seconds"] = r.cpu_seconds;
  time["write_seconds"] = r.write_seconds;
  time["gflops"] = r.flops() < 0 ? Json() : Json(1e-9 * r.flops() / r.cpu_seconds);
  return time;
}

Json peak_json(const AttendReport& r) {
  Json peak;
  if (!r.peak_gflops) return peak;
  peak["fma_gflops"] = *r.peak_gflops;
  peak["percent"] = r.flops() < 0 ? Json() : Json(percent_of_peak(r));
  return peak;
}

}  // namespace

double AttendReport::flops() const {
  if (!counts_operations()) return -1;
  const int64_t head_dim = query.shape[query.rank - 1], value_dim = value.shape[value.rank - 1];
  return 2.0 * static_cast<double>(head_dim + value_dim) * static_cast<double>(plan.allowed_scores);
}

double AttendReport::gradient_flops() const {
  if (!gradients || !counts_operations()) return gradients ? -1 : 0;
  const int64_t head_dim = query.shape[query.rank - 1], value_dim = value.shape[value.rank - 1];
  const auto allowed = static_cast<double>(plan.allowed_scores);
  return static_cast<double>(6 * head_dim + 4 * value_dim) * allowed;
}

double AttendReport::picture_flops() const {
  const int64_t head_dim = query.shape[query.rank - 1], value_dim = value.shape[value.rank - 1];
  return 2.0 * static_cast<double>(head_dim + value_dim) * static_cast<double>(picture_scores);
}

double AttendReport::seconds_of(double flops) const {
  constexpr double kMoment = 0.5e-3;  // of CPU time: a few loops
  // README.md has 85 to 88 % for f32 with AVX-512; f64 has half the lanes.
  // Without vectors exp takes as long as the dot products.
  const bool half = query.dtype == DType::f64 || plan.isa == std::string_view("scalar");
  const double share = half ? 0.4 : 0.8;
  return flops / (1e9 * measure_fma_gflops(kMoment) * share * plan.threads);
}

double AttendReport::estimated_seconds() const {
  return flops() < 0 ? -1 : seconds_of(flops() + gradient_flops());
}

namespace {

std::string summary_line(const char* name, const std::string& what) {
  return fmt::format("{:<9} {}\n", name, what);
}

// Kernel, threads, and the pairs that are looked at.
std::string plan_text(const AttendReport& r) {
  const Plan& plan = r.plan;
  const std::string threads = summary_line("threads", std::to_string(plan.threads));
  if (!r.method.empty()) {
    const std::string pairs =
        plan.method_pairs == 0
            ? fmt::format("no score is computed; the masks allow {}", plan.allowed_scores)
            : fmt::format("scores of at most {}, of {} that the masks allow", plan.method_pairs,
                          plan.allowed_scores);
    return summary_line("kernel", fmt::format("{}, {}", plan.kernel, plan.isa)) + threads +
           summary_line("pairs", pairs);
  }
  return summary_line("kernel", fmt::format("{}, {}, {} queries x {} keys at a time", plan.kernel,
                                            plan.isa, plan.tile_queries, plan.block_keys)) +
         threads +
         summary_line("tiles",
                      fmt::format("{} whole, {} cut by a mask, {} skipped", plan.tiles_computed,
                                  plan.tiles_partial, plan.tiles_skipped));
}

}  // namespace

std::string summary_text(const AttendReport& r) {
  std::string text;
  const auto line = [&](const char* name, const std::string& what) {
    text += summary_line(name, what);
  };
  line("query", type_text(r.query));
  line("key", type_text(r.key));
  line("value", type_text(r.value));
  if (r.computed) line("output", type_text(r.output));
  line("scale", fmt::format("{:.6g}", r.scale));
  for (const std::string& score : r.scores) line("score", score);
  if (r.normalizer != Softmax::kDeclaration.name) line("norm", r.normalizer);
  if (!r.method.empty()) line("method", r.method);
  if (r.cosine > 0) line("rows", fmt::format("cosine({:.6g})", r.cosine));
  if (!r.rotary.empty()) line("rows", r.rotary);
  if (!r.relative.empty()) line("products", r.relative);
  std::string masks;
  for (const std::string& mask : r.masks) masks += (masks.empty() ? "" : " and ") + mask;
  if (!masks.empty()) line("mask", masks);
  if (!r.bias.empty()) {
    line("bias", r.bias + (r.bias_order == BiasOrder::before_scores ? ", before the scores" : ""));
  }
  if (r.dropout.probability > 0) {
    line("dropout", fmt::format("{:.6g}, seed {}", r.dropout.probability, r.dropout.seed));
  }
  text += plan_text(r);
  if (r.computed) {
    line("time", time_text(r));
  } else if (const double seconds = r.estimated_seconds(); seconds >= 1e-3) {
    line("time", "about " + seconds_text(seconds));
  }
  if (r.gradients) line("gradients", gradients_text(*r.gradients));
  if (r.picture_bytes > 0)
    line("picture",
         fmt::format("exact attention with {} scores, and lsh again: {} for both calls",
                     r.picture_scores, bytes_text(static_cast<double>(r.picture_bytes))));
  if (r.peak_gflops) {
    std::string peak =
        fmt::format("{:.1f} GFLOP/s measured (one thread, {})", *r.peak_gflops, r.plan.isa);
    if (r.flops() > 0) peak += fmt::format(": {:.1f} % of it reached", percent_of_peak(r));
    line("peak", peak);
  }
  std::string memory = fmt::format("{} for results, {} for work",
                                   bytes_text(static_cast<double>(r.plan.result_bytes)),
                                   bytes_text(static_cast<double>(r.plan.workspace_bytes)));
  if (r.peak_gflops && r.memory_growth >= 0) {
    memory += fmt::format("; the process grew by {}, results included",
                          bytes_text(static_cast<double>(r.memory_growth)));
  }
  memory += fmt::format("; the matrix of scores would take {}",
                        bytes_text(static_cast<double>(r.plan.matrix_bytes)));
  line("memory", memory);
  if (r.computed && small(r.output)) text += "\noutput\n" + matrices_text(r.output);
  return text;
}

std::string captures_text(const AttendReport& r) {
  std::string text;
  if (r.stats) text += stats_text(*r.stats, r.words, r.key.shape[r.key.rank - 2]);
  if (!r.top_keys.defined()) return text;
  if (!text.empty()) text += "\n";
  if (!few_queries(r.top_keys)) {
    return text + "the top keys of so many queries: --top-keys and --top-weights write them\n";
  }
  text += "each query, its keys of greatest weight, and the weights\n";
  return text + top_keys_text(r.top_keys, r.top_weights, r.words);
}

nlohmann::ordered_json summary_json(const AttendReport& r) {
  Json document;
  document["schema"] = "rapt.attend/1";
  document["build"] = build_info();
  add_call(r, document);
  document["output"] = r.computed ? json_type(r.output) : Json();
  if (r.computed && small(r.output)) document["output"]["values"] = json_values(r.output);
  document["weights"] = r.weights.defined() ? json_type(r.weights) : Json();
  document["stats"] = r.stats ? stats_json(*r.stats, r.words) : Json();
  document["top_k"] = top_k_json(r);
  document["gradients"] = r.gradients ? gradients_json(*r.gradients) : Json();
  document["files"] = files_json(r.files);
  document["plan"] = plan_json(r);
  document["time"] = time_json(r);
  document["peak"] = peak_json(r);
  Json& memory = document["memory"];
  memory["mode"] = r.memory;
  memory["limit_bytes"] = r.memory_limit;
  memory["needed_bytes"] = r.memory_needed;
  memory["growth_bytes"] = r.memory_growth < 0 ? Json() : Json(r.memory_growth);
  return document;
}

}  // namespace rapt::cli

// rapt attend: attention on tensors in files or on a text, with its weights as numbers and
// pictures.
//
// Errors in options, outputs, inputs, shapes and memory are reported before the computation. Output
// files appear only when all of them are complete.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <optional>

#include "cli/attend/attend_arguments.h"
#include "cli/attend/attend_captures.h"
#include "cli/attend/attend_gradients.h"
#include "cli/attend/attend_picture.h"
#include "cli/attend/attend_problem.h"
#include "cli/attend/attend_report.h"
#include "cli/commands.h"
#include "cli/input/arguments.h"
#include "cli/output/narrate.h"
#include "cli/output/picture.h"
#include "cli/output/progress.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "rapt/instruction_sets.h"

namespace rapt::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double cpu_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Rejects a call that does not fit into memory, and announces a large one.
void take_memory(const Plan& plan, int64_t picture_bytes,
                 const std::optional<GradientReport>& gradients, MemoryBudget& budget) {
  const int64_t inputs = budget.taken();
  budget.take(picture_bytes, "the picture and the calls for it");
  budget.take(static_cast<int64_t>(plan.result_bytes + plan.workspace_bytes),
              "the results and the work of the call");
  const int64_t gradient_bytes =
      gradients ? gradients->result_bytes + gradients->workspace_bytes : 0;
  budget.take(gradient_bytes, "the gradients and the work for them");
  if (budget.taken() < kMemoryToTell) return;
  const auto text = [](auto bytes) { return bytes_text(static_cast<double>(bytes)); };
  const std::string with_gradients =
      gradients ? fmt::format(", gradients and their work {}", text(gradient_bytes)) : "";
  narrate(fmt::format("needs {}: inputs {}, results {}, work {}, picture {}{}; {} allowed",
                      text(budget.taken()), text(inputs), text(plan.result_bytes),
                      text(plan.workspace_bytes), text(picture_bytes), with_gradients,
                      text(budget.limit())));
}

// Opens all output files before the computation, so that a bad path is reported early.
TensorOutputs open_outputs(const AttendArguments& a) {
  TensorOutputs outputs(a.force ? Overwrite::yes : Overwrite::no, parse_npy_v2(a.npy_v2));
  for (const auto& [what, path] : tensor_targets(a)) {
    if (path->empty()) continue;
    const std::string option = std::string("--") + what;
    outputs.add(what, option, place_of(option, *path));
  }
  if (!a.stats_file.empty()) {
    const TensorPlace place = place_of("--stats", a.stats_file);
    for (const char* const what : kStatsTensors) outputs.add(what, "--stats", place);
  }
  if (!a.grad_relative.empty()) {
    const TensorPlace place = place_of("--grad-relative", a.grad_relative);
    for (const std::string& what : relative_names(a.relative))
      outputs.add(what, "--grad-relative", place);
  }
  return outputs;
}

// Announces long work before it starts; short work is not delayed by an estimate.
void tell_time(const AttendReport& report) {
  constexpr double kMuchWork = 2e10;  // operations: seconds on one scalar core, a tenth on AVX-512
  constexpr double kLong = 2;         // seconds
  const auto tell = [&](const char* what, double seconds) {
    if (seconds < kLong) return;
    const std::string time =
        seconds < 100 ? fmt::format("{:.0f} s", seconds) : clock_text(seconds) + " (h:mm:ss)";
    narrate(fmt::format("{} for about {} with {}", what, time,
                        report.plan.threads == 1
                            ? "one thread"
                            : std::to_string(report.plan.threads) + " threads"));
  };
  if (report.flops() >= kMuchWork) tell("computes", report.estimated_seconds());
  if (report.picture_flops() >= kMuchWork)
    tell("computes exact attention for the picture", report.seconds_of(report.picture_flops()));
}

// Runs the call and measures it.
AttentionResult compute(const Problem& problem, const AttentionOptions& options,
                        ProgressStyle style, bool with_peak, AttendReport& report) {
  const Inputs& inputs = problem.inputs;
  Context context = problem.context;
  context.memory_limit =
      static_cast<int64_t>(report.plan.result_bytes + report.plan.workspace_bytes);
  std::vector<double> peaks;
  if (with_peak) peaks.push_back(measure_fma_gflops());
  stop_if_interrupted();
  AttentionResult result;
  {
    const PeakMemory memory;
    ProgressLine progress(report.flops(), style);
    context.progress = progress.hook();
    const Clock::time_point start = Clock::now();
    const double cpu_start = cpu_seconds();
    result = scaled_dot_product_attention(inputs.query, inputs.key, inputs.value, options, context);
    report.cpu_seconds = cpu_seconds() - cpu_start;
    report.wall_seconds = seconds_since(start);
    report.memory_growth = memory.growth();
  }
  if (with_peak) {
    // The median of three, because the clock may change and a virtual machine's CPU time may jump.
    peaks.push_back(measure_fma_gflops());
    peaks.push_back(measure_fma_gflops());
    std::sort(peaks.begin(), peaks.end());
    report.peak_gflops = peaks[1];
  }
  return result;
}

// Runs the backward pass and measures it.
Gradients differentiate(const Problem& problem, const GradientPlan& plan,
                        const AttentionState& state, ProgressStyle style, AttendReport& report) {
  GradientReport& gradients = *report.gradients;
  Context context = problem.context;
  ProgressLine progress(report.gradient_flops(), style);
  context.progress = progress.hook();
  const Clock::time_point start = Clock::now();
  const double cpu_start = cpu_seconds();
  Gradients result = compute_gradients(plan, problem, context, state);
  gradients.cpu_seconds = cpu_seconds() - cpu_start;
  gradients.wall_seconds = seconds_since(start);
  gradients.computed = true;
  gradients.query = result.d_query.view();
  gradients.key = result.d_key.view();
  gradients.value = result.d_value.view();
  gradients.bias = result.d_bias.view();
  gradients.relative = relative_gradients(result);
  gradients.numbers = number_gradients(problem, result);
  return result;
}

// The bytes of a picture: for each cell its value, whether it has unmasked pairs, and their number.
int64_t picture_bytes(const CapturePlan& captures) {
  const int64_t cell = size_of(DType::f32) + size_of(DType::boolean) + size_of(DType::i64);
  return captures.picture_map.rows * captures.picture_map.columns * cell;
}

viz::Heatmap picture_of(const Problem& problem, const CapturePlan& captures,
                        const std::optional<LshPicture>& lsh, const TensorView& map,
                        ProgressStyle style, const AttendReport& report) {
  if (!lsh) return heatmap_of(problem, captures, map, nullptr);
  ProgressLine progress(report.picture_flops(), style);
  const LshPicture::Maps maps = lsh->compute(progress.hook());
  return heatmap_of(problem, captures, map, &maps);
}

AttendReport report_of(const AttendArguments& a, const Problem& problem,
                       const AttentionOptions& options) {
  const Inputs& inputs = problem.inputs;
  AttendReport report;
  report.plan = plan_of(a, problem, options);
  report.query = inputs.query;
  report.key = inputs.key;
  report.value = inputs.value;
  report.text = inputs.text_source;
  report.words = inputs.words;
  report.scale = options.scale.value_or(
      1 / std::sqrt(static_cast<double>(inputs.query.shape[inputs.query.rank - 1])));
  report.masks = problem.masks.specs;
  report.scores = problem.scores.specs;
  report.normalizer = problem.options.normalizer.declaration->name;
  report.method = a.method;
  if (options.cosine) report.cosine = options.cosine->epsilon;
  if (a.has_rotary) report.rotary = a.rotary.empty() ? "rotary" : "rotary(" + a.rotary + ")";
  if (!a.relative.empty()) report.relative = "relative(" + a.relative + ")";
  report.bias = problem.bias_file;
  report.bias_order = options.bias_order;
  report.packed = options.packed.defined();
  report.invariant = options.invariant;
  report.dropout = options.dropout;
  report.precision = a.precision;
  report.memory = a.memory;
  return report;
}

void print_report(const AttendArguments& a, const AttendReport& report) {
  if (a.json) return print_json(summary_json(report));
  std::string text;
  if (a.peak || !report.computed || report.files.empty()) text = summary_text(report);
  const std::string captures = report.computed && a.stats_file.empty() ? captures_text(report) : "";
  if (!text.empty() && !captures.empty()) text += "\n";
  text += captures;
  const std::vector<TensorTarget> targets = tensor_targets(a);
  const bool bytes_on_stdout =
      report.computed && std::any_of(targets.begin(), targets.end(),
                                     [](const TensorTarget& t) { return *t.path == "-"; });
  std::fputs(text.c_str(), bytes_on_stdout ? stderr : stdout);
}

// Rejects dtypes that a file of the command line cannot hold.
void check_dtypes(const TensorOutputs& outputs, const Problem& problem) {
  const DType dtype = problem.inputs.query.dtype;
  outputs.check("output", problem.options.output_dtype.value_or(dtype));
  for (const char* const gradient : {"grad-query", "grad-key", "grad-value"})
    outputs.check(gradient, dtype);
}

// The part of the summary about results.
void report_results(const AttendArguments& a, const Problem& problem, const CapturePlan& captures,
                    AttentionResult& result, AttendReport& report) {
  report.computed = true;
  report.output = result.output.view();
  report.weights = asked_weights(a, captures, result);
  if (!a.top_k.empty()) {
    report.top_keys = result.top_keys.view();
    report.top_weights = result.top_weights.view();
  }
  if (a.stats) report.stats = head_stats(problem, report.plan, result);
}

// Pairs each tensor with its file; tensors without a file are absent.
void set_outputs(const AttendReport& report, AttentionResult& result, Gradients& gradients,
                 TensorOutputs& outputs) {
  outputs.set("output", report.output);
  outputs.set("weights", report.weights);
  outputs.set("lse", result.statistic.view());
  outputs.set("top-keys", result.top_keys.view());
  outputs.set("top-weights", result.top_weights.view());
  outputs.set("top_k_keys", result.top_keys.view());
  outputs.set("top_k_weights", result.top_weights.view());
  outputs.set("entropy", result.entropy.view());
  outputs.set("received", result.received.view());
  outputs.set("grad-query", gradients.d_query.view());
  outputs.set("grad-key", gradients.d_key.view());
  outputs.set("grad-value", gradients.d_value.view());
  outputs.set("grad-bias", gradients.d_bias.view());
  for (const auto& [name, gradient] : relative_gradients(gradients)) outputs.set(name, gradient);
}

void run_attend(const AttendArguments& a) {
  const Clock::time_point start = Clock::now();
  std::optional<TensorOutputs> outputs;
  std::optional<Pictures> pictures;
  if (!a.plan) {
    outputs.emplace(open_outputs(a));
    pictures.emplace(a.picture, a.force ? Overwrite::yes : Overwrite::no);
  }
  MemoryBudget budget(parse_memory_limit(a.memory_limit));
  TensorInput files(budget, parse_npy_v2(a.npy_v2));
  const Problem problem = read_problem(a, files);
  if (outputs) check_dtypes(*outputs, problem);
  CapturePlan captures;
  plan_captures(a, problem, captures);
  const std::optional<GradientPlan> gradient_plan = plan_gradients(a, problem, files);
  AttendReport report = report_of(a, problem, captures.options);
  if (gradient_plan) {
    report.gradients.emplace();
    report.gradients->result_bytes = gradient_plan->result_bytes;
    report.gradients->workspace_bytes = gradient_plan->workspace_bytes;
  }
  const bool draws = !a.picture.targets.empty();
  const std::optional<LshPicture> lsh_picture =
      draws ? LshPicture::plan_of(problem, captures) : std::nullopt;
  if (lsh_picture) {
    report.picture_scores = lsh_picture->exact_scores();
    report.picture_bytes = lsh_picture->bytes();
  }
  take_memory(report.plan, draws ? picture_bytes(captures) + report.picture_bytes : 0,
              report.gradients, budget);
  report.memory_limit = budget.limit();
  report.memory_needed = budget.taken();
  if (a.plan) return print_report(a, report);
  tell_time(report);
  report.read_seconds = seconds_since(start);

  const ProgressStyle progress = progress_style(a.progress);
  AttentionResult result = compute(problem, captures.options, progress, a.peak, report);
  Gradients gradients;
  if (gradient_plan)
    gradients = differentiate(problem, *gradient_plan, result.state(), progress, report);
  std::optional<viz::Heatmap> picture;
  if (pictures->wanted())
    picture = picture_of(problem, captures, lsh_picture, result.map.view(), progress, report);
  const Clock::time_point computed = Clock::now();
  report_results(a, problem, captures, result, report);
  set_outputs(report, result, gradients, *outputs);
  // All files are written before any of them appears under its name.
  outputs->write();
  if (picture) pictures->draw(*picture);
  stop_if_interrupted();
  report.files = outputs->commit();
  pictures->commit();
  for (const Output& drawn : pictures->outputs())
    report.files.push_back({"heatmap", drawn.path(), ""});
  report.write_seconds = seconds_since(computed);
  print_report(a, report);
}

}  // namespace

Command add_attend(CLI::App& root) {
  CLI::App* app = root.add_subcommand("attend", "attention on files of tensors or on a text");
  const auto arguments = arguments_of<AttendArguments>(*app);
  add_attend_options(*app, *arguments);
  return {app,
          [app, arguments] {
            check_attend_usage(*app, *arguments);
            parse_memory_limit(arguments->memory_limit);
            parse_npy_v2(arguments->npy_v2);
            check_picture_options(arguments->picture);
            check_problem_options(*arguments);
            check_capture_options(*arguments);
          },
          [arguments] { run_attend(*arguments); }};
}

}  // namespace rapt::cli

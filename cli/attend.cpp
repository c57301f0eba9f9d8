// rapt attend: attention on .npy files or on a text, with its weights as numbers and pictures.
//
// Everything that can be refused is refused before the computation: options, outputs, inputs,
// shapes, memory. Files appear only when all of them are complete.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "arguments.h"
#include "attend_arguments.h"
#include "attend_input.h"
#include "attend_report.h"
#include "attend_weights.h"
#include "commands.h"
#include "failure.h"
#include "interrupt.h"
#include "mask_input.h"
#include "memory.h"
#include "narrate.h"
#include "picture.h"
#include "progress.h"
#include "rapt/instruction_sets.h"
#include "tensor_input.h"
#include "tensor_output.h"
#include "tensor_text.h"

namespace rapt::cli {
namespace {

double cpu_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

viz::Heatmap heatmap_of(const Inputs& inputs, const MaskInput& masks, const TensorView& bias,
                        const WeightsPlan& plan, const Tensor& weights,
                        const std::vector<int64_t>& leading) {
  constexpr int64_t kMostNamed = 20;  // "Query 7" fits beside so many cells
  viz::Heatmap map;
  map.rows = weights.dim(-2);
  map.columns = weights.dim(-1);
  const int64_t cells = map.rows * map.columns;
  map.values.resize(static_cast<size_t>(cells));
  for (int64_t i = 0; i < cells; ++i) {
    map.values[static_cast<size_t>(i)] =
        static_cast<float>(element(weights, plan.picture_position * cells + i));
  }
  const std::vector<int64_t> index = head_index(plan.picture_head, leading);
  map.allowed = allowed_pairs(
      masks.pointers, bias, {index.data(), static_cast<int>(index.size()), map.rows, map.columns});
  map.title = "Attention weights";
  const std::string head = head_text(plan.picture_head, leading);
  if (!head.empty()) map.title += " of head " + head;
  for (size_t i = 0; i < masks.specs.size(); ++i)
    map.title += (i ? " and " : ", ") + masks.specs[i];
  if (!inputs.words.empty()) {
    map.row_labels = map.column_labels = inputs.words;
  } else if (map.rows <= kMostNamed && map.columns <= kMostNamed) {
    for (int64_t i = 0; i < map.rows; ++i) map.row_labels.push_back("Query " + std::to_string(i));
    for (int64_t j = 0; j < map.columns; ++j)
      map.column_labels.push_back("Key " + std::to_string(j));
  }
  return map;
}

// Refuses what does not fit, and tells what is much.
void take_memory(const Plan& plan, int64_t picture_bytes, MemoryBudget& budget) {
  const int64_t inputs = budget.taken();
  budget.take(picture_bytes, "the picture of all weights of a head");
  budget.take(static_cast<int64_t>(plan.result_bytes + plan.workspace_bytes),
              "the results and the work of the call");
  if (budget.taken() < kMemoryToTell) return;
  const auto text = [](auto bytes) { return bytes_text(static_cast<double>(bytes)); };
  narrate(fmt::format("needs {}: inputs {}, results {}, work {}, picture {}; {} allowed",
                      text(budget.taken()), text(inputs), text(plan.result_bytes),
                      text(plan.workspace_bytes), text(picture_bytes), text(budget.limit())));
}

// What is computed: tensors, masks, and the options that look at them.
struct Problem {
  Inputs inputs;
  MaskInput masks;
  Tensor bias;
  std::string bias_file;
  AttentionOptions options;
};

Problem read_problem(const AttendArguments& a, MemoryBudget& budget) {
  Problem problem;
  AttentionOptions& options = problem.options;
  if (!a.scale.empty()) options.scale = parse_real("--scale", a.scale);
  problem.inputs = read_inputs(a, budget);
  if (!options.scale) options.scale = problem.inputs.scale;
  MaskInput& masks = problem.masks = read_masks(a.masks, budget);
  if (!a.bias.empty() && masks.bias.defined()) {
    throw usage_error("--bias and a --mask file of floats are two biases; add them up first");
  }
  if (masks.bias.defined()) {
    narrate("--mask file:" + masks.bias_file + " holds floats: added as a bias");
    problem.bias = std::move(masks.bias);
    problem.bias_file = masks.bias_file;
  } else if (!a.bias.empty()) {
    problem.bias = read_tensor("--bias", a.bias, budget);
    problem.bias_file = a.bias;
  }
  convert_input("the bias", problem.bias, problem.inputs.query.dtype, budget);
  options.masks = masks.pointers;
  options.bias = problem.bias.view();
  return problem;
}

// What a command writes as .npy, opened before the computation.
struct TensorFile {
  std::string what;  // "output", "weights" or "lse"
  Output output;
};

std::vector<TensorFile> open_tensor_files(const AttendArguments& a) {
  const std::pair<const char*, const std::string*> named[] = {
      {"output", &a.output}, {"weights", &a.weights}, {"lse", &a.lse}};
  std::vector<TensorFile> files;
  for (const auto& [what, path] : named) {
    if (path->empty()) continue;
    const std::string option = std::string("--") + what;
    require_npy_name(option, *path);
    files.push_back({what, Output(option, *path, a.force ? Overwrite::yes : Overwrite::no)});
  }
  return files;
}

// Runs the call and measures it.
AttentionResult compute(const Problem& problem, bool with_peak, AttendReport& report) {
  const Inputs& inputs = problem.inputs;
  Context context;
  context.cancel = &interruption();
  context.memory_limit =
      static_cast<int64_t>(report.plan.result_bytes + report.plan.workspace_bytes);
  std::vector<double> peaks;
  if (with_peak) peaks.push_back(measure_fma_gflops());
  stop_if_interrupted();
  AttentionResult result;
  {
    const PeakMemory memory;
    ProgressLine progress(report.flops());
    context.progress = progress.hook();
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = cpu_seconds();
    result = scaled_dot_product_attention(inputs.query, inputs.key, inputs.value, problem.options,
                                          context);
    report.cpu_seconds = cpu_seconds() - cpu_start;
    report.wall_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.memory_growth = memory.growth();
  }
  if (with_peak) {
    // The clock may change meanwhile, and a virtual machine's count of CPU time may jump: the
    // middle of three.
    peaks.push_back(measure_fma_gflops());
    peaks.push_back(measure_fma_gflops());
    std::sort(peaks.begin(), peaks.end());
    report.peak_gflops = peaks[1];
  }
  return result;
}

void run_attend(const AttendArguments& a) {
  std::vector<TensorFile> files = open_tensor_files(a);
  Pictures pictures(a.picture, a.force ? Overwrite::yes : Overwrite::no);
  MemoryBudget budget(a.memory_limit.empty() ? -1 : parse_bytes("--memory-limit", a.memory_limit));

  Problem problem = read_problem(a, budget);
  const Inputs& inputs = problem.inputs;
  AttentionOptions& options = problem.options;
  AttendReport report;
  // Shapes are checked here, before anything is derived from them.
  report.plan = plan(inputs.query, inputs.key, inputs.value, options);
  const std::vector<int64_t> leading = leading_dimensions(inputs);
  const int64_t q_len = inputs.query.shape[inputs.query.rank - 2];
  const int64_t k_len = inputs.key.shape[inputs.key.rank - 2];
  const WeightsPlan wanted = plan_weights(a, leading, q_len);
  if (!a.weights.empty() || pictures.wanted()) {
    options.weights = rapt::WeightsRequest{
        .row_begin = wanted.row_begin, .row_end = wanted.row_end, .heads = wanted.heads};
    report.plan = plan(inputs.query, inputs.key, inputs.value, options);
  }
  // A picture holds a float and a byte per pair.
  const int64_t cell_bytes = size_of(DType::f32) + size_of(DType::boolean);
  take_memory(report.plan, pictures.wanted() ? q_len * k_len * cell_bytes : 0, budget);
  report.query = inputs.query;
  report.key = inputs.key;
  report.value = inputs.value;
  report.text = inputs.text_source;
  const auto head_dim = static_cast<double>(inputs.query.shape[inputs.query.rank - 1]);
  report.scale = options.scale.value_or(1 / std::sqrt(head_dim));
  report.masks = problem.masks.specs;
  report.bias = problem.bias_file;
  report.memory_limit = budget.limit();
  report.memory_needed = budget.taken();

  const AttentionResult result = compute(problem, a.peak, report);
  report.output = result.output.view();
  if (!a.weights.empty()) report.weights = asked_weights(a, result.weights);
  const auto tensor_of = [&](const std::string& what) -> TensorView {
    return what == "output"    ? report.output
           : what == "weights" ? report.weights
                               : result.statistic.view();
  };
  // All is written before any file appears under its name.
  for (TensorFile& file : files) file.output.write_npy(tensor_of(file.what));
  if (pictures.wanted()) {
    pictures.draw(heatmap_of(inputs, problem.masks, options.bias, wanted, result.weights, leading));
  }
  stop_if_interrupted();
  for (TensorFile& file : files) {
    file.output.commit(file.what + " " + type_text(tensor_of(file.what)));
    report.files.push_back({file.what, file.output.path()});
  }
  pictures.commit();
  for (const Output& picture : pictures.outputs()) {
    report.files.push_back({"heatmap", picture.path()});
  }
  if (a.json) {
    print_json(summary_json(report));
  } else if (a.peak || report.files.empty()) {
    const bool bytes_on_stdout = a.output == "-" || a.weights == "-" || a.lse == "-";
    std::fputs(summary_text(report).c_str(), bytes_on_stdout ? stderr : stdout);
  }
}

}  // namespace

Command add_attend(CLI::App& root) {
  CLI::App* app = root.add_subcommand("attend", "attention on .npy files or on a text");
  const auto arguments = std::make_shared<AttendArguments>();
  add_attend_options(*app, *arguments);
  return {app, [app, arguments] {
            check_attend_usage(*app, *arguments);
            run_attend(*arguments);
          }};
}

}  // namespace rapt::cli

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
#include <filesystem>
#include <numeric>

#include "arguments.h"
#include "attend_report.h"
#include "commands.h"
#include "failure.h"
#include "interrupt.h"
#include "mask_input.h"
#include "memory.h"
#include "picture.h"
#include "progress.h"
#include "rapt/catalogue.h"
#include "rapt/io/text_features.h"
#include "shown.h"
#include "tensor_input.h"
#include "tensor_output.h"
#include "tensor_text.h"

namespace rapt::cli {
namespace {

struct AttendArguments {
  std::string query, key, value, text, dim;
  std::string bias, scale, dtype, normalizer = "softmax", memory_limit;
  std::vector<std::string> masks;
  std::string output, weights, weights_rows, lse, head;
  std::vector<std::string> weights_heads;
  PictureArguments picture;
  bool json = false, force = false, peak = false;
};

// Names of the contract whose feature does not exist yet.
constexpr UnbuiltOption kUnbuilt[] = {
    {"--stats", "statistics of the weights"},
    {"--top-k", "the keys of greatest weight"},
    {"--weights-pool", "pooled weights"},
    {"--softcap", "capped scores"},
    {"--score", "other scores"},
    {"--method", "approximations"},
    {"--dropout", "dropped weights"},
    {"--seed", "the seed of dropout"},
    {"--grad-output", "the backward pass"},
    {"--grad-query", "the backward pass"},
    {"--grad-key", "the backward pass"},
    {"--grad-value", "the backward pass"},
    {"--grad-mask", "the backward pass"},
    {"--precision", "other precisions of the products"},
    {"--invariant", "one kernel class for all lengths"},
    {"--threads", "more than one thread"},
    {"--npy-v2", "bf16 in .npy files"},
    {"--progress", "progress for programs"},
};

// Query, key and value of one dtype, f32 or f64.
struct Inputs {
  Tensor query;       // [..., q_len, head_dim]
  Tensor key, value;  // [..., k_len, head_dim], [..., k_len, value_dim]; undefined: the query
  std::vector<std::string> words;  // of --text
  std::string text_source;

  const TensorView& key_view() const { return key.defined() ? key.view() : query.view(); }
  const TensorView& value_view() const { return value.defined() ? value.view() : query.view(); }
};

// Which weights to compute, and where the asked ones lie in them.
struct WeightsPlan {
  std::vector<int64_t> heads;  // flat indices; empty: all
  int64_t row_begin = 0, row_end = 0;
  int64_t picture_head = 0;      // flat index
  int64_t picture_position = 0;  // its place among the computed heads
};

void narrate(const std::string& line) { std::fprintf(stderr, "%s\n", shown(line).c_str()); }

double cpu_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::optional<DType> wanted_dtype(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "f32") return DType::f32;
  if (name == "f64") return DType::f64;
  if (name == "bf16" || name == "f16") throw not_built("--dtype " + name, "f32 and f64 are");
  throw usage_error("--dtype: expected f32 or f64, got '" + name + "'");
}

void check_normalizer(const std::string& name) {
  std::vector<std::string_view> known;
  for (const Declaration* declaration : normalizer_declarations())
    known.push_back(declaration->name);
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string meant = did_you_mean(name, known);
  throw not_built("--normalizer " + name, meant.empty() ? "softmax is" : meant);
}

// Converts to the query's dtype, or to the one asked for, and says so.
void convert_input(const std::string& option, Tensor& tensor, DType dtype, MemoryBudget& budget) {
  if (!tensor.defined() || tensor.dtype() == dtype) return;
  budget.take(tensor.count() * size_of(dtype), option + " as " + name_of(dtype));
  narrate(option + ": " + name_of(tensor.dtype()) + " converted to " + name_of(dtype));
  tensor = converted(tensor, dtype);
}

Inputs read_text(const AttendArguments& arguments, MemoryBudget& budget) {
  Inputs inputs;
  std::string text = arguments.text;
  inputs.text_source = "the command line";
  std::error_code ignored;
  const bool at = !text.empty() && text[0] == '@';
  if (at || std::filesystem::is_regular_file(text, ignored)) {
    inputs.text_source = at ? text.substr(1) : text;
    text = read_text_file("--text", inputs.text_source);
  }
  inputs.words = split_words(text);
  if (inputs.words.empty()) throw Failure(Exit::data, "--text: there is no word in the text");
  const int64_t dim = arguments.dim.empty() ? kTextDim : parse_integer("--dim", arguments.dim);
  if (dim < 1) throw usage_error("--dim: expected at least 1, got " + arguments.dim);
  // A product beyond 64 bits is beyond every budget.
  const auto words = static_cast<int64_t>(inputs.words.size());
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  budget.take(dim > kMost / words / size_of(DType::f32) ? kMost : dim * words * size_of(DType::f32),
              fmt::format("the features of {} words", words));
  inputs.query = text_features(inputs.words, dim);
  return inputs;
}

Inputs read_files(const AttendArguments& arguments, MemoryBudget& budget) {
  Inputs inputs;
  inputs.query = read_tensor("--query", arguments.query, budget);
  inputs.key = read_tensor("--key", arguments.key, budget);
  inputs.value = read_tensor("--value", arguments.value, budget);
  return inputs;
}

Inputs read_inputs(const AttendArguments& arguments, MemoryBudget& budget) {
  const std::optional<DType> asked = wanted_dtype(arguments.dtype);
  Inputs inputs =
      arguments.text.empty() ? read_files(arguments, budget) : read_text(arguments, budget);
  const DType dtype = asked.value_or(inputs.query.dtype());
  if (dtype != DType::f32 && dtype != DType::f64) {
    throw Failure(Exit::data,
                  std::string("--query: expected f32 or f64, got ") + name_of(inputs.query.dtype()),
                  "--dtype f32 or --dtype f64 converts");
  }
  convert_input("--query", inputs.query, dtype, budget);
  convert_input("--key", inputs.key, dtype, budget);
  convert_input("--value", inputs.value, dtype, budget);
  return inputs;
}

void check_usage(const AttendArguments& a) {
  const bool files = !a.query.empty() || !a.key.empty() || !a.value.empty();
  if (!a.text.empty() && files) {
    throw usage_error("--text makes query, key and value; it cannot be joined by files for them");
  }
  if (a.text.empty() && (a.query.empty() || a.key.empty() || a.value.empty())) {
    throw usage_error("expected --query, --key and --value, or --text");
  }
  if (!a.dim.empty() && a.text.empty()) throw usage_error("--dim belongs to --text");
  if (a.weights.empty() && (!a.weights_rows.empty() || !a.weights_heads.empty())) {
    throw usage_error("--weights-rows and --weights-heads need --weights");
  }
  if (a.picture.targets.empty() && !a.head.empty()) throw usage_error("--head needs --heatmap");
  const auto& targets = a.picture.targets;
  const auto claims = (a.output == "-") + (a.weights == "-") + (a.lse == "-") + a.json +
                      std::count(targets.begin(), targets.end(), "-");
  if (claims > 1) {
    throw usage_error("standard output can take one of --json, --heatmap - and '-' for a file");
  }
  const auto reads = (a.query == "-") + (a.key == "-") + (a.value == "-") + (a.bias == "-");
  if (reads > 1) throw usage_error("standard input can be read once");
  std::vector<std::string> names = {a.output, a.weights, a.lse};
  names.insert(names.end(), targets.begin(), targets.end());
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (name.empty() || name == "-" || std::filesystem::is_other(name, ignored)) continue;
    const auto path = std::filesystem::weakly_canonical(name, ignored);
    if (std::find(paths.begin(), paths.end(), path) != paths.end()) {
      throw usage_error("'" + name + "' is named as two outputs");
    }
    paths.push_back(path);
  }
}

// The leading dimensions of the output. plan() has found them compatible.
std::vector<int64_t> leading_dimensions(const Inputs& inputs) {
  const TensorView* const views[] = {&inputs.query.view(), &inputs.key_view(),
                                     &inputs.value_view()};
  int rank = 2;
  for (const TensorView* view : views) rank = std::max(rank, view->rank);
  std::vector<int64_t> leading(static_cast<size_t>(rank - 2), 1);
  for (const TensorView* view : views) {
    for (int d = 0; d < view->rank - 2; ++d) {
      int64_t& length = leading[static_cast<size_t>(d + rank - view->rank)];
      if (length == 1) length = view->shape[d];  // grouped heads: the query's come first
    }
  }
  return leading;
}

// "B,H" as a flat index. Dimensions that the tensors lack count as 1.
int64_t flat_head(const std::string& option, const std::string& text,
                  const std::vector<int64_t>& leading) {
  std::vector<int64_t> index = parse_integers(option, text);
  std::string wanted;
  for (const int64_t length : leading)
    wanted += fmt::format("{}0..{}", wanted.empty() ? "" : ",", length - 1);
  const auto refuse = [&] {
    throw Failure(Exit::data, fmt::format("{} {}: the heads of this problem are {}", option, text,
                                          leading.empty() ? "0,0 alone" : wanted));
  };
  while (index.size() > leading.size() && index.front() == 0) index.erase(index.begin());
  if (index.size() != leading.size()) refuse();
  int64_t flat = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] < 0 || index[d] >= leading[d]) refuse();
    flat = flat * leading[d] + index[d];
  }
  return flat;
}

std::string head_text(int64_t flat, const std::vector<int64_t>& leading) {
  std::string text;
  for (size_t d = leading.size(); d-- > 0;) {
    text = std::to_string(flat % leading[d]) + (text.empty() ? "" : ",") + text;
    flat /= leading[d];
  }
  return text;
}

WeightsPlan plan_weights(const AttendArguments& a, const std::vector<int64_t>& leading,
                         int64_t q_len) {
  WeightsPlan plan;
  plan.row_end = q_len;
  const int64_t heads =
      std::accumulate(leading.begin(), leading.end(), int64_t{1}, std::multiplies<>());
  const bool picture = !a.picture.targets.empty();
  if (!a.weights_rows.empty()) {
    const auto [begin, end] = parse_range("--weights-rows", a.weights_rows);
    if (end > q_len) {
      throw Failure(Exit::data,
                    fmt::format("--weights-rows {}: there are {} rows", a.weights_rows, q_len));
    }
    if (!picture) {  // a picture needs them all
      plan.row_begin = begin;
      plan.row_end = end;
    }
  }
  const bool all =
      std::find(a.weights_heads.begin(), a.weights_heads.end(), "all") != a.weights_heads.end();
  if (all && a.weights_heads.size() > 1) throw usage_error("--weights-heads: 'all' stands alone");
  for (const std::string& head : a.weights_heads) {
    if (!all) plan.heads.push_back(flat_head("--weights-heads", head, leading));
  }
  if (!picture) return plan;
  if (heads < 1) throw Failure(Exit::data, "--heatmap: this problem has no head to draw");
  if (!a.head.empty()) {
    plan.picture_head = flat_head("--head", a.head, leading);
  } else if (heads > 1) {
    narrate(
        fmt::format("drawing head {} of {}; --head chooses another", head_text(0, leading), heads));
  }
  if (!a.weights.empty() && plan.heads.empty()) {
    plan.picture_position = plan.picture_head;  // all heads are computed
    return plan;
  }
  const auto found = std::find(plan.heads.begin(), plan.heads.end(), plan.picture_head);
  plan.picture_position = found - plan.heads.begin();
  if (found == plan.heads.end()) plan.heads.push_back(plan.picture_head);
  return plan;
}

// The part of the computed weights that --weights asks for: the picture may have added to it.
TensorView asked_weights(const AttendArguments& a, const Tensor& weights) {
  TensorView view = weights.view();
  if (!a.weights_rows.empty() && !a.picture.targets.empty()) {
    const auto [begin, end] = parse_range("--weights-rows", a.weights_rows);
    view = view.slice(view.rank - 2, begin, end);
  }
  if (!a.weights_heads.empty() && a.weights_heads.front() != "all") {
    view = view.slice(0, 0, static_cast<int64_t>(a.weights_heads.size()));
  }
  return view;
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
  std::vector<int64_t> index(leading.size());
  for (int64_t rest = plan.picture_head, d = static_cast<int64_t>(leading.size()) - 1; d >= 0;
       --d) {
    index[static_cast<size_t>(d)] = rest % leading[static_cast<size_t>(d)];
    rest /= leading[static_cast<size_t>(d)];
  }
  map.allowed = allowed_pairs(masks.pointers, bias,
                              {.index = index, .q_len = map.rows, .k_len = map.columns});
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

// Tells what the call will take, and refuses what does not fit.
void take_memory(const Plan& plan, int64_t picture_bytes, MemoryBudget& budget) {
  const auto call = static_cast<int64_t>(plan.result_bytes + plan.workspace_bytes);
  const int64_t inputs = budget.taken();
  if (inputs + call + picture_bytes >= kMemoryToTell) {
    const auto text = [](auto bytes) { return bytes_text(static_cast<double>(bytes)); };
    narrate(fmt::format("needs {}: inputs {}, results {}, work {}, picture {}; {} allowed",
                        text(inputs + call + picture_bytes), text(inputs), text(plan.result_bytes),
                        text(plan.workspace_bytes), text(picture_bytes), text(budget.limit())));
  }
  budget.take(picture_bytes, "the picture of all weights of a head");
  budget.take(call, "the results and the work of the call");
}

void run_attend(const AttendArguments& a) {
  check_usage(a);
  check_normalizer(a.normalizer);
  wanted_dtype(a.dtype);
  const Overwrite overwrite = a.force ? Overwrite::yes : Overwrite::no;
  std::vector<std::pair<std::string, Output>> outputs;  // what, where
  const std::pair<const char*, const std::string*> named[] = {
      {"output", &a.output}, {"weights", &a.weights}, {"lse", &a.lse}};
  for (const auto& [what, path] : named) {
    const std::string option = std::string("--") + what;
    if (path->empty()) continue;
    require_npy_name(option, *path);
    outputs.emplace_back(what, Output(option, *path, overwrite));
  }
  Pictures pictures(a.picture, overwrite);
  MemoryBudget budget(a.memory_limit.empty() ? -1 : parse_bytes("--memory-limit", a.memory_limit));

  AttentionOptions options;
  if (!a.scale.empty()) options.scale = parse_real("--scale", a.scale);
  Inputs inputs = read_inputs(a, budget);
  if (!a.text.empty() && !options.scale) options.scale = kTextScale;  // its rows have length 1
  MaskInput masks = read_masks(a.masks, budget);
  if (!a.bias.empty() && masks.bias.defined()) {
    throw usage_error("--bias and a --mask file of floats are two biases; add them up first");
  }
  Tensor bias = a.bias.empty() ? std::move(masks.bias) : read_tensor("--bias", a.bias, budget);
  if (!masks.bias_file.empty())
    narrate("--mask file:" + masks.bias_file + " holds floats: added as a bias");
  convert_input(a.bias.empty() ? "--mask file" : "--bias", bias, inputs.query.dtype(), budget);
  options.masks = masks.pointers;
  if (bias.defined()) options.bias = bias.view();

  // Shapes are checked here, before anything is derived from them.
  Context context;
  context.cancel = &interruption();
  const TensorView &key = inputs.key_view(), &value = inputs.value_view();
  plan(inputs.query, key, value, options, context);
  const std::vector<int64_t> leading = leading_dimensions(inputs);
  const int64_t q_len = inputs.query.dim(-2), k_len = key.shape[key.rank - 2];
  const WeightsPlan wanted = plan_weights(a, leading, q_len);
  options.weights.wanted = !a.weights.empty() || pictures.wanted();
  options.weights.row_begin = wanted.row_begin;
  options.weights.row_end = wanted.row_end;
  options.weights.heads = wanted.heads;

  AttendReport report;
  report.plan = plan(inputs.query, key, value, options, context);
  // A picture holds a float and a byte per pair.
  const int64_t cell_bytes = size_of(DType::f32) + size_of(DType::boolean);
  take_memory(report.plan, pictures.wanted() ? q_len * k_len * cell_bytes : 0, budget);
  context.memory_limit =
      static_cast<int64_t>(report.plan.result_bytes + report.plan.workspace_bytes);

  report.query = inputs.query.view();
  report.key = key;
  report.value = value;
  report.text = inputs.text_source;
  report.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(inputs.query.dim(-1))));
  report.masks = masks.specs;
  report.bias = a.bias.empty() ? masks.bias_file : a.bias;
  report.memory_limit = budget.limit();
  report.memory_needed = budget.taken();
  if (a.peak) report.peak = measure_peak();
  stop_if_interrupted();

  AttentionResult result;
  {
    const PeakMemory memory;
    ProgressLine progress(report.flops());
    context.progress = progress.hook();
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = cpu_seconds();
    result = scaled_dot_product_attention(inputs.query, key, value, options, context);
    report.cpu_seconds = cpu_seconds() - cpu_start;
    report.wall_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.memory_growth = memory.growth();
  }
  if (a.peak) {  // the clock may have changed meanwhile: the better of before and after counts
    const MachinePeak after = measure_peak();
    if (after.fma_gflops > report.peak->fma_gflops) report.peak = after;
  }
  report.result = &result;

  for (auto& [what, output] : outputs) {
    output.write_npy(what == "output"    ? result.output.view()
                     : what == "weights" ? asked_weights(a, result.weights)
                                         : result.statistic.view());
    report.files.push_back({what, output.path()});
  }
  if (pictures.wanted()) {
    pictures.draw(heatmap_of(inputs, masks, options.bias, wanted, result.weights, leading));
  }
  stop_if_interrupted();
  for (auto& [what, output] : outputs) {
    output.commit(what + " " +
                  type_text(what == "output"    ? result.output.view()
                            : what == "weights" ? asked_weights(a, result.weights)
                                                : result.statistic.view()));
  }
  pictures.commit();
  for (const Output& picture : pictures.outputs())
    report.files.push_back({"heatmap", picture.path()});

  if (a.json) {
    print_json(summary_json(report));
  } else if (a.peak || report.files.empty()) {
    const bool bytes_on_stdout = a.output == "-" || a.weights == "-" || a.lse == "-";
    std::fputs(summary_text(report).c_str(), bytes_on_stdout ? stderr : stdout);
  }
}

void add_options(CLI::App& app, AttendArguments& a) {
  const auto text = [&](const char* name, std::string& value, const char* type, const char* group,
                        const char* doc) {
    app.add_option(name, value, doc)->type_name(type)->group(group);
  };
  const auto many = [&](const char* name, std::vector<std::string>& value, const char* type,
                        const char* group, const char* doc) {
    app.add_option(name, value, doc)
        ->type_name(type)
        ->group(group)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  text("--query", a.query, "F", "Input", "query [..., q_len, d], .npy; - is standard input");
  text("--key", a.key, "F", "Input", "key [..., k_len, d]; heads may divide the query's");
  text("--value", a.value, "F", "Input", "value [..., k_len, d_v]");
  text("--text", a.text, "TEXT", "Input",
       "instead: query = key = value from a sentence, a file, or @file");
  text("--dim", a.dim, "D", "Input", "numbers per word of --text (default 128)");
  text("--dtype", a.dtype, "T", "Input", "convert the inputs to f32 or f64 (default: the query's)");
  many("--mask", a.masks, "SPEC", "Attention",
       "causal, causal:bottom-right, causal:OFFSET, window:LEFT,RIGHT[:ANCHOR], lengths:F.npy, "
       "file:M.npy (true = may attend); repeatable, combined by 'and'");
  text("--bias", a.bias, "F", "Attention", "added to the scaled scores; -inf excludes");
  text("--scale", a.scale, "X", "Attention",
       "of the dot products (default 1/sqrt(d); 5 for --text)");
  text("--normalizer", a.normalizer, "NAME", "Attention", "how scores become weights: softmax");
  text("--output", a.output, "F", "Output", "output [..., q_len, d_v]; - is standard output");
  text("--weights", a.weights, "F", "Output", "weights [..., q_len, k_len]");
  text("--weights-rows", a.weights_rows, "a:b", "Output", "only the weights of queries a to b - 1");
  many("--weights-heads", a.weights_heads, "B,H", "Output",
       "only the weights of this head (repeatable), or all");
  text("--lse", a.lse, "F", "Output", "natural logarithm of the sum of e^score, [..., q_len]");
  app.add_flag("--json", a.json, "a summary for programs on standard output (docs/json.md)")
      ->group("Output");
  app.add_flag("--force,-f", a.force, "overwrite existing files")->group("Output");
  app.add_flag("--peak", a.peak,
               "print the summary, with the machine's measured peak and the memory that was used")
      ->group("Output");
  add_picture_options(app, a.picture);
  text("--head", a.head, "B,H", "Picture", "the head to draw (default 0,0)");
  text("--memory-limit", a.memory_limit, "SIZE", "Limits",
       "refuse to take more, 512M or 8GiB (default: what is available)");
}

}  // namespace

Command add_attend(CLI::App& root) {
  CLI::App* app = root.add_subcommand("attend", "attention on .npy files or on a text");
  const auto arguments = std::make_shared<AttendArguments>();
  add_options(*app, *arguments);
  add_unbuilt(*app, kUnbuilt);
  app->footer(
      "Without an output a summary is printed. RAPT_ISA=scalar|avx2|avx512 names the highest\n"
      "instruction set that may be used.\n\n"
      "  rapt attend --query q.npy --key k.npy --value v.npy --mask causal --output o.npy\n"
      "  rapt attend --text \"the cat sat because the cat was tired\" --heatmap -");
  return {app, [app, arguments] {
            refuse_unbuilt(*app, kUnbuilt);
            refuse_unknown(*app);
            run_attend(*arguments);
          }};
}

}  // namespace rapt::cli

// Reads the problem and checks it with the library, whose errors name the argument: here they name
// its option.
#include "cli/attend/attend_problem.h"

#include "cli/files/conversion.h"
#include "cli/input/arguments.h"
#include "cli/input/bias_order.h"
#include "cli/output/narrate.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"

namespace rapt::cli {
namespace {

void read_bias(const AttendArguments& a, TensorInput& files, Problem& problem) {
  MaskInput& masks = problem.masks;
  if (!a.bias.empty() && masks.bias.view().defined()) {
    throw usage_error("--bias and a --mask file of floats are two biases; add them up first");
  }
  if (masks.bias.view().defined()) {
    narrate("--mask file:" + masks.bias_file + " holds floats: added as a bias");
    problem.bias = std::move(masks.bias);
    problem.bias_file = masks.bias_file;
  } else if (!a.bias.empty()) {
    problem.bias = files.read("--bias", a.bias);
    problem.bias_file = a.bias;
  }
  // With 16-bit inputs, a bias of another dtype becomes f32, which keeps its digits.
  const DType dtype = problem.inputs.query.dtype;
  const bool half = dtype == DType::bf16 || dtype == DType::f16;
  const TensorView& bias = problem.bias.view();
  const bool as_it_is = bias.defined() && bias.dtype == dtype;
  if (!as_it_is) convert_input("the bias", problem.bias, half ? DType::f32 : dtype, files.budget());
  require_bias(a.bias_order, problem.bias.view());
  problem.options.bias_order = bias_order_from(a.bias_order, !problem.options.scores.empty());
}

// --softcap X is the score softcap(X), before all others.
void read_scores(const AttendArguments& a, TensorInput* files, Problem& problem) {
  if (!a.softcap.empty()) {
    if (parse_real("--softcap", a.softcap) <= 0) {
      throw usage_error("--softcap: expected a number above 0, got " + a.softcap);
    }
    add_score("--softcap", "softcap(" + a.softcap + ")", files, problem.scores);
  }
  for (const std::string& spec : a.scores)
    add_score("--score " + spec, spec, files, problem.scores);
  problem.options.scores = problem.scores.list();
}

void refuse_lse(const AttendArguments& a, const std::string& why) {
  if (!a.lse.empty()) throw usage_error("--lse" + why);
  if (!a.grad_lse.empty()) throw usage_error("--grad-lse" + why);
}

void read_normalizer(const AttendArguments& a, TensorInput* files, Problem& problem) {
  problem.options.normalizer = problem.normalizer.emplace(
      make_normalizer_with_files(a.normalizer, files, problem.scores.tensors));
  problem.normalizer_spec = a.normalizer;
  if (problem.options.normalizer.statistic != Statistic::lse)
    refuse_lse(a, ": --normalizer " + a.normalizer + " has no lse");
}

void read_method(const AttendArguments& a, TensorInput* files, Problem& problem) {
  if (a.method.empty()) return;
  problem.method = make_method_with_files(a.method, files, problem.scores.tensors);
  problem.options.method = problem.method.get();
  if (problem.method->scope().statistic != Statistic::lse)
    refuse_lse(a, ": --method " + a.method + " has no lse");
}

// Row transforms.
void read_row_transforms(const AttendArguments& a, Problem& problem) {
  if (a.has_cosine) problem.options.cosine = parse_cosine(a.cosine);
  if (!a.has_rotary) return;
  problem.rotary = std::make_unique<Rotary>(parse_rotary(a.rotary));
  problem.options.rotary.embedding = problem.rotary.get();
  if (!a.query_start.empty()) {
    problem.options.rotary.query.start = parse_integer("--query-start", a.query_start);
  }
}

// Relative positions. Without `files` the elements of tensors are not read.
void read_relative(const AttendArguments& a, TensorInput* files, Problem& problem) {
  if (a.relative.empty()) return;
  const DType dtype = files != nullptr ? problem.inputs.query.dtype : DType::f32;
  problem.options.relative = parse_relative(a.relative, files, dtype, problem.scores.tensors);
}

Dropout dropout_from(const AttendArguments& a) {
  Dropout dropout;
  if (!a.dropout.empty()) dropout.probability = parse_real("--dropout", a.dropout);
  if (!(dropout.probability >= 0 && dropout.probability < 1)) {
    throw usage_error("--dropout: expected a probability from 0 to below 1, got " + a.dropout);
  }
  const int64_t seed = a.seed.empty() ? 0 : parse_integer("--seed", a.seed);
  if (seed < 0) throw usage_error("--seed: expected 0 or more, got " + a.seed);
  dropout.seed = static_cast<uint64_t>(seed);
  return dropout;
}

LoadedTensor read_starts(const std::string& option, const std::string& file, TensorInput& files) {
  LoadedTensor starts = files.read(option, file);
  // NumPy makes int32 on some systems, and flash-attention expects it; the conversion is exact.
  if (starts.view().dtype == DType::i32) starts = owned(converted(starts.view(), DType::i64));
  return starts;
}

// The option that sets an argument of the library. "" for tensors, masks, scores and normalisers,
// whose messages begin with their names.
std::string option_of(const AttendArguments& a, std::string_view argument) {
  if (argument == "output_dtype") return "--output-dtype";
  if (argument == "rotary") return "--rotary";
  if (argument == "cosine") return "--cosine";
  if (argument == "relative") return "--relative";
  if (argument == "packed") return a.packed_keys.empty() ? "--packed" : "--packed-keys";
  if (argument == "weights") return "--weights";
  if (argument == "map") return a.weights_pool.empty() ? "--heatmap" : "--weights-pool";
  if (argument == "top_k") return "--top-k";
  if (argument == "entropy") return a.entropy.empty() ? "--stats" : "--entropy";
  return "";
}

// Asks the library: ask(query, key, value, options, context).
template <class Ask>
auto asked(const AttendArguments& a, const Problem& problem, const AttentionOptions& options,
           const Ask& ask) {
  const Inputs& in = problem.inputs;
  try {
    return ask(in.query, in.key, in.value, options, problem.context);
  } catch (const Error& error) {
    const std::string option = option_of(a, error.argument());
    if (option.empty()) throw;
    throw Failure(exit_of(error.code()), option + ": " + error.what());
  }
}

}  // namespace

Plan plan_of(const AttendArguments& a, const Problem& problem, const AttentionOptions& options) {
  return asked(a, problem, options, [](const auto&... call) { return plan(call...); });
}

void check_problem_options(const AttendArguments& a) {
  parse_threads(a.threads);
  dtype_named("--output-dtype", a.output_dtype);
  if (!a.scale.empty()) parse_real("--scale", a.scale);
  dropout_from(a);
  Problem without_files;
  read_scores(a, nullptr, without_files);
  read_normalizer(a, nullptr, without_files);
  read_method(a, nullptr, without_files);
  read_row_transforms(a, without_files);
  read_relative(a, nullptr, without_files);
  check_input_options(a);
  check_masks(a.masks);
}

Problem read_problem(const AttendArguments& a, TensorInput& files) {
  Problem problem;
  problem.context.threads = parse_threads(a.threads);
  problem.context.memory = a.memory == "low" ? Memory::low : Memory::automatic;
  problem.context.cancel = &interruption();
  AttentionOptions& options = problem.options;
  options.precision = precision_from(a.precision);
  options.invariant = a.invariant;
  options.dropout = dropout_from(a);
  options.output_dtype = dtype_named("--output-dtype", a.output_dtype);
  if (!a.scale.empty()) options.scale = parse_real("--scale", a.scale);
  read_scores(a, &files, problem);
  read_normalizer(a, &files, problem);
  read_method(a, &files, problem);
  problem.inputs = read_inputs(a, files);
  const Inputs& inputs = problem.inputs;
  if (!options.scale) options.scale = inputs.scale;
  problem.masks = read_masks(a.masks, files);
  read_bias(a, files, problem);
  if (!a.packed.empty()) problem.query_starts = read_starts("--packed", a.packed, files);
  if (!a.packed_keys.empty()) {
    problem.key_starts = read_starts("--packed-keys", a.packed_keys, files);
  }

  read_row_transforms(a, problem);
  read_relative(a, &files, problem);
  options.packed = {problem.query_starts.view(), problem.key_starts.view()};
  options.masks = problem.masks.pointers;
  options.bias = problem.bias.view();
  asked(a, problem, options, [](const auto&... call) { return workspace_bytes(call...); });
  problem.leading = leading_dimensions(inputs);
  problem.q_len = inputs.query.shape[inputs.query.rank - 2];
  problem.k_len = inputs.key.shape[inputs.key.rank - 2];
  return problem;
}

}  // namespace rapt::cli

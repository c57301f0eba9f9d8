// Reads the output gradient, computes the input gradients, and reports them.
#include "cli/attend/attend_gradients.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

// The dtype of statistics and of bias gradients: f32, or f64 for f64.
DType wide(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

LoadedTensor read_gradient(const std::string& option, const std::string& file,
                           const std::vector<int64_t>& shape, DType dtype, TensorInput& files) {
  LoadedTensor tensor = files.read(option, file);
  const Shape got = tensor.view().dims();
  if (!std::equal(got.begin(), got.end(), shape.begin(), shape.end())) {
    throw Failure(Exit::data, fmt::format("{}: expected shape {}, got {}", option, to_string(shape),
                                          to_string(got)));
  }
  convert_input(option, tensor, dtype, files.budget());
  return tensor;
}

int64_t bytes_of(const TensorView& like, DType dtype) { return like.count() * size_of(dtype); }

// A learned parameter: its variant and its number of elements.
struct Learned {
  std::string of;  // "softcap(30): cap"
  int64_t count;
  bool tensor;
};

// Learned parameters of scores are real parameters and tensors per head; those of normalisers are
// tensors per head.
std::vector<Learned> learned_by_scores(const Problem& problem) {
  std::vector<Learned> all;
  size_t position = 0;
  for (const ScoreRef& score : problem.options.scores) {
    const std::string& spec = problem.scores.specs[position++];
    for (const Parameter& parameter : score.declaration->parameters) {
      const std::string of = spec + ": " + parameter.name;
      const TensorView tensor = parameter.get(score.object).tensor;
      if (parameter.type == ParameterType::real)
        all.push_back({of, 1, false});
      else if (parameter.own_rank >= 0 && tensor.defined())
        all.push_back({of, tensor.count(), true});
    }
  }
  return all;
}
std::vector<Learned> learned_by_normalizer(const Problem& problem) {
  std::vector<Learned> all;
  const NormalizerRef& normalizer = problem.options.normalizer;
  for (const Parameter& parameter : normalizer.declaration->parameters)
    if (const TensorView tensor = parameter.get(normalizer.object).tensor;
        parameter.own_rank >= 0 && tensor.defined())
      all.push_back({std::string(normalizer.declaration->name) + ": " + parameter.name,
                     tensor.count(), true});
  return all;
}

int64_t numbers_of(const std::vector<Learned>& all) {
  int64_t count = 0;
  for (const Learned& one : all) count += one.count;
  return count;
}

int64_t result_bytes(const BackwardRequest& request, const Problem& problem) {
  const Inputs& in = problem.inputs;
  const DType dtype = in.query.dtype;
  int64_t bytes = 0;
  if (request.query) bytes += bytes_of(in.query, dtype);
  if (request.key) bytes += bytes_of(in.key, dtype);
  if (request.value) bytes += bytes_of(in.value, dtype);
  if (request.bias) bytes += bytes_of(problem.bias.view(), wide(dtype));
  if (request.relative)
    for (const Parameter& parameter : RelativePositions::kDeclaration.parameters)
      if (parameter.type == ParameterType::tensor)
        bytes += bytes_of(parameter.get(&problem.options.relative).tensor, wide(dtype));
  return bytes + size_of(DType::f64) * (1 + numbers_of(learned_by_scores(problem)) +
                                        numbers_of(learned_by_normalizer(problem)));
}

}  // namespace

void check_gradient_options(const AttendArguments& a) {
  const struct {
    const char* option;
    const std::string& file;
  } others[] = {{"--grad-lse", a.grad_lse},   {"--grad-query", a.grad_query},
                {"--grad-key", a.grad_key},   {"--grad-value", a.grad_value},
                {"--grad-bias", a.grad_bias}, {"--grad-relative", a.grad_relative}};
  for (const auto& other : others) {
    if (!other.file.empty() && a.grad_output.empty()) {
      throw usage_error(std::string(other.option) +
                        " needs --grad-output, the gradient of the output");
    }
  }
  if (!a.grad_relative.empty() && a.relative.empty())
    throw usage_error("--grad-relative needs --relative, whose tensors have gradients");
}

std::vector<std::pair<std::string, TensorView>> relative_gradients(const Gradients& g) {
  std::vector<std::pair<std::string, TensorView>> all;
  for (const auto& [name, gradient] :
       {std::pair("key_rows", &g.d_key_rows), std::pair("query_rows", &g.d_query_rows),
        std::pair("value_rows", &g.d_value_rows), std::pair("content_bias", &g.d_content_bias),
        std::pair("position_bias", &g.d_position_bias)})
    if (gradient->defined()) all.emplace_back(name, gradient->view());
  return all;
}

std::optional<GradientPlan> plan_gradients(const AttendArguments& a, const Problem& problem,
                                           TensorInput& files) {
  if (a.grad_output.empty()) return std::nullopt;
  const Inputs& in = problem.inputs;
  GradientPlan plan;
  BackwardRequest& request = plan.request;
  request.query = !a.grad_query.empty();
  request.key = !a.grad_key.empty();
  request.value = !a.grad_value.empty();
  request.bias = !a.grad_bias.empty();
  request.relative = !a.grad_relative.empty();
  const MethodScope* const scope = problem.method ? &problem.method->scope() : nullptr;
  request.scale = !scope || scope->d_scale;
  request.score_parameters =
      numbers_of(learned_by_scores(problem)) > 0 && (!scope || scope->d_score_parameters);
  request.normalizer_parameters = numbers_of(learned_by_normalizer(problem)) > 0 && !scope;
  if (request.bias && !problem.options.bias.defined()) {
    throw usage_error("--grad-bias: there is no bias; expected --bias, or a --mask file of floats");
  }

  std::vector<int64_t> shape = problem.leading;
  shape.push_back(problem.q_len);
  if (!a.grad_lse.empty()) {
    plan.d_lse = read_gradient("--grad-lse", a.grad_lse, shape, wide(in.query.dtype), files);
  }
  shape.push_back(in.value.shape[in.value.rank - 1]);
  plan.d_output = read_gradient("--grad-output", a.grad_output, shape,
                                problem.options.output_dtype.value_or(in.query.dtype), files);
  try {
    plan.workspace_bytes = static_cast<int64_t>(backward_workspace_bytes(
        in.query, in.key, in.value, problem.options, request, problem.context));
  } catch (const Error& error) {
    throw Failure(exit_of(error.code()), std::string("--grad-output: ") + error.what());
  }
  plan.result_bytes = result_bytes(request, problem);
  return plan;
}

Gradients compute_gradients(const GradientPlan& plan, const Problem& problem, Context context,
                            const AttentionState& state) {
  const Inputs& in = problem.inputs;
  context.memory_limit = plan.result_bytes + plan.workspace_bytes;
  return scaled_dot_product_attention_backward(in.query, in.key, in.value, problem.options,
                                               {state, plan.d_output.view(), plan.d_lse.view(), {}},
                                               plan.request, context);
}

std::vector<NumberGradient> number_gradients(const Problem& problem, const Gradients& gradients) {
  std::vector<NumberGradient> numbers;
  if (gradients.d_scale.defined())
    numbers.push_back({"scale", gradients.d_scale.values<double>()[0]});
  const auto add = [&](const std::vector<Learned>& all, const Tensor& gradient) {
    if (!gradient.defined()) return;
    size_t next = 0;
    for (const Learned& one : all)
      for (int64_t nth = 0; nth < one.count; ++nth)
        numbers.push_back({one.of + (one.tensor ? fmt::format("[{}]", nth) : ""),
                           gradient.values<double>()[next++]});
  };
  add(learned_by_scores(problem), gradients.d_score_parameters);
  add(learned_by_normalizer(problem), gradients.d_normalizer_parameters);
  return numbers;
}

nlohmann::ordered_json gradients_json(const GradientReport& r) {
  using Json = nlohmann::ordered_json;
  const auto type = [](const TensorView& tensor) {
    return tensor.defined() ? json_type(tensor) : Json();
  };
  Json document;
  document["query"] = type(r.query);
  document["key"] = type(r.key);
  document["value"] = type(r.value);
  document["bias"] = type(r.bias);
  document["relative"] = r.relative.empty() ? Json() : Json::object();
  for (const auto& [name, gradient] : r.relative) document["relative"][name] = type(gradient);
  document["numbers"] = Json::array();
  for (const NumberGradient& number : r.numbers)
    document["numbers"].push_back(Json{{"of", number.of}, {"value", json_number(number.value)}});
  document["wall_seconds"] = r.computed ? Json(r.wall_seconds) : Json();
  document["cpu_seconds"] = r.computed ? Json(r.cpu_seconds) : Json();
  document["result_bytes"] = r.result_bytes;
  document["workspace_bytes"] = r.workspace_bytes;
  return document;
}

}  // namespace rapt::cli

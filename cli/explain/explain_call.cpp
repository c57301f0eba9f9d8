// Reads matrices, masks, scores and options of `rapt explain`.
#include "cli/explain/explain_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cli/explain/explain_plain.h"
#include "cli/files/conversion.h"
#include "cli/input/arguments.h"
#include "cli/input/bias_order.h"
#include "cli/input/matrix_argument.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

// Two words of three numbers each, and projections to two.
constexpr const char* kEmbeddings = "1 2 3; 4 5 6";
constexpr const char* kWQuery = "0.01 0.03; 0.02 0.02; 0.03 0.01";
constexpr const char* kWKey = "0.05 0.05; 0.06 0.05; 0.07 0.05";
constexpr const char* kWValue = "0.02 0.02; 0.01 0.02; 0.01 0.01";

// Numbers on the command line or the name of a file; f64 [rows, columns].
Tensor read_matrix(const std::string& option, const std::string& text, TensorInput& files) {
  if (is_matrix_text(text)) return parse_matrix(option, text);
  const LoadedTensor tensor = files.read(option, text);
  TensorView matrix = tensor.view();
  if (matrix.dtype == DType::boolean)
    throw Failure(Exit::data, option + ": expected numbers, got a tensor of type bool");
  while (matrix.rank > 2 && matrix.shape[0] == 1) {  // (1, 4, 8) counts as (4, 8)
    std::copy(matrix.shape + 1, matrix.shape + matrix.rank, matrix.shape);
    std::copy(matrix.strides + 1, matrix.strides + matrix.rank, matrix.strides);
    --matrix.rank;
  }
  if (matrix.rank != 2) {
    throw Failure(Exit::data, option + ": expected a matrix, got " + type_text(tensor.view()));
  }
  return f64_copy(matrix);
}

// A small matrix, rounded to the dtype of the computation.
Tensor read_small(const std::string& option, const std::string& text, DType dtype,
                  TensorInput& files) {
  const Tensor matrix = read_matrix(option, text, files);
  check_small(option, matrix);
  return rounded(matrix, dtype);
}

PlainInputs read_inputs(const ExplainArguments& a, DType dtype, TensorInput& files,
                        std::vector<Step>& steps) {
  PlainInputs inputs{read_small("--query", a.query, dtype, files),
                     read_small("--key", a.key, dtype, files),
                     read_small("--value", a.value, dtype, files)};
  steps.push_back({"query", "", "One row per query: what it looks for.", f64_copy(inputs.query)});
  steps.push_back({"key", "", "One row per key: what it can be found by.", f64_copy(inputs.key)});
  steps.push_back({"value", "", "One row per key: what it hands over.", f64_copy(inputs.value)});
  return inputs;
}

// Embeddings times their projections; without embeddings those of the built-in example.
PlainInputs project(const ExplainArguments& a, DType dtype, TensorInput& files,
                    std::vector<Step>& steps) {
  const bool built_in = a.embeddings.empty();
  PlainInputs inputs;
  Tensor embeddings =
      read_small("--embeddings", built_in ? kEmbeddings : a.embeddings, dtype, files);
  const struct {
    const char *option, *name, *purpose, *formula, *doc, *ours;
    const std::string& given;
    Tensor& result;
  } projections[] = {
      {"--w-query", "w_query", "The projection that makes queries.", "embeddings w_query",
       "What each word looks for.", kWQuery, a.w_query, inputs.query},
      {"--w-key", "w_key", "The projection that makes keys.", "embeddings w_key",
       "What each word can be found by.", kWKey, a.w_key, inputs.key},
      {"--w-value", "w_value", "The projection that makes values.", "embeddings w_value",
       "What each word hands over.", kWValue, a.w_value, inputs.value},
  };
  steps.push_back({"embeddings", "", "One row per word.", f64_copy(embeddings)});
  std::vector<Step> products;
  for (const auto& p : projections) {
    Tensor weight = read_small(p.option, built_in ? p.ours : p.given, dtype, files);
    if (weight.dim(0) != embeddings.dim(1)) {
      throw Failure(Exit::data,
                    fmt::format("{}: expected {} rows, one per column of the embeddings, got {}",
                                p.option, embeddings.dim(1), to_string(weight.dims())));
    }
    p.result = rounded(product(embeddings, weight), dtype);
    products.push_back({std::string(p.name).substr(2), p.formula, p.doc, f64_copy(p.result)});
    steps.push_back({p.name, "", p.purpose, std::move(weight)});
  }
  for (Step& step : products) steps.push_back(std::move(step));
  return inputs;
}

// The bias of --bias or of a --mask file of floats, in the dtype of the computation; else absent.
Tensor read_bias(const ExplainArguments& a, const MaskInput& masks, DType dtype,
                 TensorInput& files) {
  Tensor bias;
  if (masks.bias.view().defined()) bias = f64_copy(masks.bias.view());
  if (!a.bias.empty()) {
    if (bias.defined()) throw usage_error("--bias and a --mask file of floats are two biases");
    bias = read_matrix("--bias", a.bias, files);
  }
  if (bias.defined()) bias = converted(bias, dtype);
  require_bias(a.bias_order, bias.defined() ? bias.view() : TensorView());
  return bias;
}

ScoreInput read_scores(const ExplainArguments& a, TensorInput& files) {
  ScoreInput scores;
  for (const std::string& spec : a.scores) add_score("--score " + spec, spec, &files, scores);
  return scores;
}

}  // namespace

ExplainedCall::ExplainedCall(const ExplainArguments& a, TensorInput& files,
                             std::vector<Step>& steps)
    : dtype(a.dtype == "f64" ? DType::f64 : DType::f32),
      plain(a.query.empty() ? project(a, dtype, files, steps)
                            : read_inputs(a, dtype, files, steps)),
      masks(read_masks(a.masks, files)),
      bias(read_bias(a, masks, dtype, files)),
      query(converted(plain.query, dtype)),
      key(converted(plain.key, dtype)),
      value(converted(plain.value, dtype)),
      scores(read_scores(a, files)),
      normalizer(make_normalizer_with_files(a.normalizer, &files, scores.tensors)),
      rotary(a.has_rotary ? parse_rotary(a.rotary) : Rotary()) {
  if (!a.relative.empty())
    options.relative = parse_relative(a.relative, &files, dtype, scores.tensors);
  options.normalizer = normalizer;
  if (a.has_cosine) options.cosine = parse_cosine(a.cosine);
  if (a.has_rotary) options.rotary.embedding = &rotary;
  if (!a.scale.empty()) options.scale = parse_real("--scale", a.scale);
  options.masks = masks.pointers;
  if (bias.defined()) options.bias = bias.view();
  options.scores = scores.list();
  options.bias_order = bias_order_from(a.bias_order, !options.scores.empty());
  options.weights.emplace();
}

}  // namespace rapt::cli

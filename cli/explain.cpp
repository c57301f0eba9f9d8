// rapt explain: attention step by step on small matrices, every number shown.
//
//   query = embeddings w_query    key = embeddings w_key    value = embeddings w_value
//   scores = query key^T    scaled = scale * scores (+ bias)    excluded pairs: -inf
//   weights = softmax of each row of scaled    output = weights value
//
// Weights and output are the library's own. The steps before them are computed here, plainly and in
// float64, and carried on to weights and output: the two must agree within rounding.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "allowed_pairs.h"
#include "arguments.h"
#include "choices.h"
#include "commands.h"
#include "conversion.h"
#include "failure.h"
#include "interrupt.h"
#include "mask_input.h"
#include "matrix_argument.h"
#include "memory.h"
#include "picture.h"
#include "rapt/attention.h"
#include "rapt/version.h"
#include "tensor_input.h"
#include "tensor_text.h"

namespace rapt::cli {
namespace {

// Beyond this nobody reads the numbers, and they no longer fit on a line.
constexpr int64_t kMostRows = 32;

// Two words of three numbers each, and projections to two.
constexpr const char* kEmbeddings = "1 2 3; 4 5 6";
constexpr const char* kWQuery = "0.01 0.03; 0.02 0.02; 0.03 0.01";
constexpr const char* kWKey = "0.05 0.05; 0.06 0.05; 0.07 0.05";
constexpr const char* kWValue = "0.02 0.02; 0.01 0.02; 0.01 0.01";

struct ExplainArguments {
  std::string embeddings, w_query, w_key, w_value;
  std::string query, key, value;
  std::vector<std::string> masks;
  std::string bias, scale, dtype = "f32", npy_v2;
  PictureArguments picture;
  bool json = false, force = false;
};

struct Step {
  std::string name, formula, doc;
  Tensor matrix;  // f64 [rows, columns]
};

struct Explanation {
  std::vector<Step> steps;
  std::vector<std::string> masks;
  double scale = 0;
  double difference = 0;  // greatest, of the library's weights and output to the plain ones
  Plan plan;
  viz::Heatmap map;
};

// Row-major access to an f64 matrix.
double& at(Tensor& matrix, int64_t i, int64_t j) {
  return matrix.values<double>()[static_cast<size_t>(i * matrix.dim(1) + j)];
}
double at(const Tensor& matrix, int64_t i, int64_t j) {
  return matrix.values<double>()[static_cast<size_t>(i * matrix.dim(1) + j)];
}

Tensor product(const Tensor& a, const Tensor& b) {  // [m, n] [n, p] -> [m, p]
  Tensor c(DType::f64, {a.dim(0), b.dim(1)});
  for (int64_t i = 0; i < c.dim(0); ++i) {
    for (int64_t j = 0; j < c.dim(1); ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.dim(1); ++k) sum += at(a, i, k) * at(b, k, j);
      at(c, i, j) = sum;
    }
  }
  return c;
}

Tensor copy(const TensorView& tensor) { return converted(tensor, DType::f64); }

// Numbers on the command line or the name of a file; f64 [rows, columns].
Tensor read_matrix(const std::string& option, const std::string& text, TensorInput& files) {
  if (is_matrix_text(text)) return parse_matrix(option, text);
  const LoadedTensor tensor = files.read(option, text);
  TensorView matrix = tensor.view();
  if (matrix.dtype == DType::boolean)
    throw Failure(Exit::data, option + ": expected numbers, got a tensor of type bool");
  while (matrix.rank > 2 && matrix.shape[0] == 1) {  // (1, 4, 8) is as good as (4, 8)
    std::copy(matrix.shape + 1, matrix.shape + matrix.rank, matrix.shape);
    std::copy(matrix.strides + 1, matrix.strides + matrix.rank, matrix.strides);
    --matrix.rank;
  }
  if (matrix.rank != 2) {
    throw Failure(Exit::data, option + ": expected a matrix, got " + type_text(tensor.view()));
  }
  return copy(matrix);
}

void check_small(const std::string& option, const Tensor& matrix) {
  if (matrix.dim(0) > kMostRows || matrix.dim(1) > kMostRows) {
    throw Failure(
        Exit::data,
        fmt::format("{}: every number is printed, so expected at most {} rows and columns, "
                    "got {}",
                    option, kMostRows, to_string(matrix.dims())),
        "'rapt attend' takes matrices of any size");
  }
}

// Rounds to the dtype of the computation, so that the plain steps start from the same numbers.
Tensor rounded(const Tensor& matrix, DType dtype) { return copy(converted(matrix, dtype)); }

struct Attention {
  Tensor query, key, value;  // f64, rounded to the dtype of the computation
};

Attention project(const ExplainArguments& a, DType dtype, TensorInput& files,
                  std::vector<Step>& steps) {
  const bool projected = a.query.empty();
  const bool built_in = projected && a.embeddings.empty();
  Attention attention;
  const auto input = [&](const char* option, const std::string& given, const char* ours) {
    Tensor matrix = read_matrix(option, built_in ? ours : given, files);
    check_small(option, matrix);
    return rounded(matrix, dtype);
  };
  if (!projected) {
    attention.query = input("--query", a.query, "");
    attention.key = input("--key", a.key, "");
    attention.value = input("--value", a.value, "");
    steps.push_back({"query", "", "One row per query: what it looks for.", copy(attention.query)});
    steps.push_back({"key", "", "One row per key: what it can be found by.", copy(attention.key)});
    steps.push_back({"value", "", "One row per key: what it hands over.", copy(attention.value)});
    return attention;
  }
  Tensor embeddings = input("--embeddings", a.embeddings, kEmbeddings);
  const struct {
    const char *option, *name, *purpose, *formula, *doc, *ours;
    const std::string& given;
    Tensor& result;
  } projections[] = {
      {"--w-query", "w_query", "The projection that makes queries.", "embeddings w_query",
       "What each word looks for.", kWQuery, a.w_query, attention.query},
      {"--w-key", "w_key", "The projection that makes keys.", "embeddings w_key",
       "What each word can be found by.", kWKey, a.w_key, attention.key},
      {"--w-value", "w_value", "The projection that makes values.", "embeddings w_value",
       "What each word hands over.", kWValue, a.w_value, attention.value},
  };
  steps.push_back({"embeddings", "", "One row per word.", copy(embeddings)});
  std::vector<Step> products;
  for (const auto& p : projections) {
    Tensor weight = input(p.option, p.given, p.ours);
    if (weight.dim(0) != embeddings.dim(1)) {
      throw Failure(Exit::data,
                    fmt::format("{}: expected {} rows, one per column of the embeddings, got {}",
                                p.option, embeddings.dim(1), to_string(weight.dims())));
    }
    p.result = rounded(product(embeddings, weight), dtype);
    products.push_back({std::string(p.name).substr(2), p.formula, p.doc, copy(p.result)});
    steps.push_back({p.name, "", p.purpose, std::move(weight)});
  }
  for (Step& step : products) steps.push_back(std::move(step));
  return attention;
}

// The greatest difference of two matrices, where NaN equals NaN and an infinity itself.
double difference_of(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = element(a, i), y = element(b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double difference = std::abs(x - y);
    most = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                  : std::max(most, difference);
  }
  return most;
}

// How far rounding may carry the library's weights and output from the plain ones. A score is off
// by (head_dim + 2) eps times the sum of the sizes of its terms; e^score carries that as a relative
// error, twice, with the sum; the sums over keys add one eps each.
double tolerance(const Attention& x, double scale, DType dtype) {
  const double eps = dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
  double terms = 0, values = 1;
  for (int64_t i = 0; i < x.query.dim(0); ++i) {
    for (int64_t j = 0; j < x.key.dim(0); ++j) {
      double sum = 0;
      for (int64_t c = 0; c < x.key.dim(1); ++c)
        sum += std::abs(at(x.query, i, c) * at(x.key, j, c));
      terms = std::max(terms, std::abs(scale) * sum);
    }
  }
  for (const double v : x.value.values<double>()) values = std::max(values, std::abs(v));
  const double head_dim = static_cast<double>(x.key.dim(1));
  const double k_len = static_cast<double>(x.key.dim(0));
  return eps * values * (2 * (head_dim + 2) * terms + 2 * k_len + 8);
}

void softmax_row(std::span<double> row) {  // scaled scores, -inf where excluded; weights out
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double s : row) most = std::isnan(s) ? s : std::max(most, s);
  for (double& s : row) sum += s = std::isinf(most) && most < 0 ? 0 : std::exp(s - most);
  for (double& s : row) s = sum == 0 ? 0 : s / sum;
}

Explanation explain(const ExplainArguments& a) {
  MemoryBudget budget(-1);
  TensorInput files(budget, parse_npy_v2(a.npy_v2));
  Explanation e;
  const DType dtype = a.dtype == "f64" ? DType::f64 : DType::f32;
  const Attention x = project(a, dtype, files, e.steps);
  MaskInput masks = read_masks(a.masks, files);
  Tensor bias;
  if (masks.bias.view().defined()) bias = copy(masks.bias.view());
  if (!a.bias.empty()) {
    if (bias.defined()) throw usage_error("--bias and a --mask file of floats are two biases");
    bias = read_matrix("--bias", a.bias, files);
  }
  if (bias.defined()) bias = converted(bias, dtype);

  const Tensor query = converted(x.query, dtype), key = converted(x.key, dtype);
  const Tensor value = converted(x.value, dtype);
  AttentionOptions options;
  if (!a.scale.empty()) options.scale = parse_real("--scale", a.scale);
  options.masks = masks.pointers;
  if (bias.defined()) options.bias = bias.view();
  options.weights.emplace();
  e.plan = plan(query, key, value, options);
  const AttentionResult result = scaled_dot_product_attention(query, key, value, options);
  e.masks = masks.specs;
  e.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(x.query.dim(1))));

  const Tensor transposed = copy(x.key.view().transposed());
  Tensor scores = product(x.query, transposed);
  e.steps.push_back(
      {"key_transposed", "key^T", "Keys as columns, ready for the product.", copy(transposed)});
  e.steps.push_back(
      {"scores", "query key^T", "How well each query (row) fits each key (column).", copy(scores)});
  for (double& s : scores.values<double>()) s *= e.scale;
  e.steps.push_back(
      {"scaled_scores", a.scale.empty() ? "scores / sqrt(head_dim)" : "scores * scale",
       fmt::format("Times {:.4f}, so that long vectors do not make scores extreme.", e.scale),
       copy(scores)});
  const int64_t q_len = scores.dim(0), k_len = scores.dim(1);
  const Head head{.index = {}, .q_len = q_len, .k_len = k_len};
  if (bias.defined()) {
    Tensor wide(DType::f64, {q_len, k_len});  // the bias, broadcast
    const Tensor plain = copy(bias);
    if (plain.rank() != 2)
      throw Failure(Exit::data, "the bias: expected a matrix, got " + type_text(bias));
    for (int64_t i = 0; i < q_len; ++i) {
      for (int64_t j = 0; j < k_len; ++j) {
        at(wide, i, j) = at(plain, plain.dim(0) == 1 ? 0 : i, plain.dim(1) == 1 ? 0 : j);
        at(scores, i, j) += at(wide, i, j);
      }
    }
    e.steps.push_back({"bias", "", "Added to the scaled scores; -inf excludes.", std::move(wide)});
  }
  const std::vector<uint8_t> allowed = allowed_pairs(masks.pointers, options.bias, head);
  if (!masks.masks.empty()) {
    const std::vector<uint8_t> by_masks = allowed_pairs(masks.pointers, {}, head);
    Tensor mask(DType::f64, {q_len, k_len});
    for (int64_t i = 0; i < q_len * k_len; ++i) {
      mask.values<double>()[static_cast<size_t>(i)] = by_masks[static_cast<size_t>(i)];
    }
    e.steps.push_back(
        {"mask", "", "1 where the query may attend to the key, else 0.", std::move(mask)});
  }
  for (int64_t i = 0; i < q_len * k_len; ++i) {
    if (!allowed[static_cast<size_t>(i)]) {
      scores.values<double>()[static_cast<size_t>(i)] = -std::numeric_limits<double>::infinity();
    }
  }
  if (!masks.masks.empty() || bias.defined()) {
    e.steps.push_back({"masked_scores", "scaled_scores, with bias and mask",
                       "What the softmax sees; -inf means excluded.", copy(scores)});
  }

  Tensor plain_weights = copy(scores);
  Tensor row_sums(DType::f64, {q_len, 1});
  for (int64_t i = 0; i < q_len; ++i) {
    softmax_row(plain_weights.values<double>().subspan(static_cast<size_t>(i * k_len),
                                                       static_cast<size_t>(k_len)));
    double sum = 0;
    for (int64_t j = 0; j < k_len; ++j) sum += element(result.weights, i * k_len + j);
    at(row_sums, i, 0) = sum;
  }
  e.steps.push_back({"weights", "softmax(scores) per row",
                     "Which share of each value a query takes.", copy(result.weights)});
  e.steps.push_back({"row_sums", "sum of each row of weights",
                     "1 each, or 0 for a query that may attend to nothing.", std::move(row_sums)});
  e.steps.push_back({"output", "weights value", "One row per query: the mixture of the values.",
                     copy(result.output)});

  Tensor plain_output(DType::f64, {q_len, x.value.dim(1)});
  for (int64_t i = 0; i < q_len; ++i) {
    for (int64_t c = 0; c < x.value.dim(1); ++c) {
      double sum = 0;
      for (int64_t j = 0; j < k_len; ++j) {  // an excluded value does not count, even if it is NaN
        if (allowed[static_cast<size_t>(i * k_len + j)]) {
          sum += at(plain_weights, i, j) * at(x.value, j, c);
        }
      }
      at(plain_output, i, c) = sum;
    }
  }
  e.difference = std::max(difference_of(copy(result.weights), plain_weights),
                          difference_of(copy(result.output), plain_output));
  const double most = tolerance(x, e.scale, dtype);
  if (!(e.difference <= most)) {
    throw Failure(Exit::differs,
                  fmt::format("the library's result differs from the plain computation by {:.3g}; "
                              "rounding explains {:.3g}",
                              e.difference, most),
                  "please report it, with these inputs");
  }

  e.map.rows = q_len;
  e.map.columns = k_len;
  for (int64_t i = 0; i < q_len * k_len; ++i) {
    e.map.values.push_back(static_cast<float>(element(result.weights, i)));
  }
  e.map.allowed = allowed;
  e.map.title = "Attention weights";
  for (int64_t i = 0; i < q_len; ++i) e.map.row_labels.push_back(fmt::format("Query {}", i));
  for (int64_t j = 0; j < k_len; ++j) e.map.column_labels.push_back(fmt::format("Key {}", j));
  return e;
}

void print_text(const Explanation& e) {
  int number = 0;
  for (const Step& step : e.steps) {
    const std::string formula = step.formula.empty() ? "" : " = " + step.formula;
    fmt::print("{}. {}{}  {}\n   {}\n{}\n", ++number, step.name, formula,
               to_string(step.matrix.dims()), step.doc, matrix_text(step.matrix, "   "));
  }
  fmt::print(
      "Weights and output are rapt's ({}); the plain computation differs by at most {:.1e}.\n",
      e.plan.isa, e.difference);
}

void print_document(const Explanation& e) {
  using Json = nlohmann::ordered_json;
  Json document;
  document["schema"] = "rapt.explain/1";
  document["build"] = build_info();
  document["isa"] = e.plan.isa;
  document["scale"] = e.scale;
  document["masks"] = e.masks;
  document["difference"] = e.difference;
  document["steps"] = Json::array();
  for (const Step& step : e.steps) {
    Json entry;
    entry["name"] = step.name;
    entry["formula"] = step.formula;
    entry["doc"] = step.doc;
    entry["shape"] = {step.matrix.dim(0), step.matrix.dim(1)};
    entry["values"] = json_values(step.matrix);
    document["steps"].push_back(std::move(entry));
  }
  print_json(document);
}

void check_usage(const ExplainArguments& a) {
  const auto count = [](std::initializer_list<const std::string*> names) {
    return std::count_if(names.begin(), names.end(), [](auto* name) { return !name->empty(); });
  };
  const auto projected = count({&a.embeddings, &a.w_query, &a.w_key, &a.w_value});
  const auto given = count({&a.query, &a.key, &a.value});
  if (projected > 0 && given > 0) {
    throw usage_error("give --query, --key and --value, or --embeddings with its projections");
  }
  if (projected > 0 && projected < 4) {
    throw usage_error("--embeddings, --w-query, --w-key and --w-value belong together");
  }
  if (given > 0 && given < 3) throw usage_error("--query, --key and --value belong together");
  check_picture_options(a.picture);
  const std::vector<std::string>& targets = a.picture.targets;
  if (a.json && std::find(targets.begin(), targets.end(), "-") != targets.end())
    throw usage_error("standard output can take one of --json and --heatmap -");
  if (a.dtype != "f32" && a.dtype != "f64")
    throw usage_error("--dtype: expected f32 or f64, got '" + a.dtype + "'");
  if (!a.scale.empty()) parse_real("--scale", a.scale);
  parse_npy_v2(a.npy_v2);
  check_masks(a.masks);
  const std::pair<const char*, const std::string*> matrices[] = {
      {"--embeddings", &a.embeddings}, {"--w-query", &a.w_query}, {"--w-key", &a.w_key},
      {"--w-value", &a.w_value},       {"--query", &a.query},     {"--key", &a.key},
      {"--value", &a.value},           {"--bias", &a.bias}};
  for (const auto& [option, text] : matrices)
    if (is_matrix_text(*text)) check_small(option, parse_matrix(option, *text));
}

void run_explain(const ExplainArguments& a) {
  Pictures pictures(a.picture, a.force ? Overwrite::yes : Overwrite::no);
  const Explanation explanation = explain(a);
  if (a.json) {
    print_document(explanation);
  } else {
    print_text(explanation);
  }
  if (pictures.wanted()) pictures.draw(explanation.map);
  stop_if_interrupted();
  pictures.commit();
}

}  // namespace

Command add_explain(CLI::App& root) {
  CLI::App* app = root.add_subcommand("explain", "attention step by step on small matrices");
  const auto a = arguments_of<ExplainArguments>(*app);
  const auto text = [&](const char* name, std::string& value, const char* type, const char* doc) {
    app->add_option(name, value, doc)->type_name(type);
  };
  text("--embeddings", a->embeddings, "M",
       "one row per word: \"1 2 3; 4 5 6\" or a file, such as F.npy or F.npz:NAME");
  text("--w-query", a->w_query, "M", "projection of the embeddings to queries");
  text("--w-key", a->w_key, "M", "projection of the embeddings to keys");
  text("--w-value", a->w_value, "M", "projection of the embeddings to values");
  text("--query", a->query, "M", "instead of embeddings: the queries");
  text("--key", a->key, "M", "the keys");
  text("--value", a->value, "M", "the values");
  app->add_option("--mask", a->masks, "as for 'rapt attend' (repeatable)")
      ->type_name("SPEC")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  text("--bias", a->bias, "M", "added to the scaled scores");
  text("--scale", a->scale, "X", "of the dot products (default 1/sqrt(head_dim))");
  text("--dtype", a->dtype, "T", "compute in f32 (default) or f64");
  app->add_flag("--json", a->json, "the same for programs (docs/json.md)");
  app->add_flag("--force,-f", a->force, "overwrite existing files");
  add_npy_v2_option(*app, a->npy_v2);
  add_picture_options(*app, a->picture);
  offer(app->get_option("--mask"), mask_words());
  offer(app->get_option("--dtype"), {"f32", "f64"});
  app->footer(
      "Without matrices the built-in example is explained: two words, [1 2 3] and [4 5 6].");
  return {app,
          [app, a] {
            refuse_unknown(*app);
            refuse_empty(*app);
            check_usage(*a);
          },
          [a] { run_explain(*a); }};
}

}  // namespace rapt::cli

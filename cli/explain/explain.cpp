// rapt explain: attention step by step on small matrices, every number shown.
//
//   query = embeddings w_query    key = embeddings w_key    value = embeddings w_value
//   scores = query key^T    scaled = scale * scores, each --score, + bias    excluded pairs: -inf
//   weights = softmax, or another normaliser, of each row of scaled    output = weights value
//
// Relative positions add to scores and values (explain_relative.h). Weights and output are the
// library's own, and so is what scores and rotary embedding make. The other steps are computed
// here, plainly and in float64, and carried on to weights and output (explain_plain.h): the two
// must agree within rounding.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "cli/commands.h"
#include "cli/explain/explain_arguments.h"
#include "cli/explain/explain_plain.h"
#include "cli/explain/explain_relative.h"
#include "cli/explain/explain_step.h"
#include "cli/files/conversion.h"
#include "cli/input/arguments.h"
#include "cli/input/bias_order.h"
#include "cli/input/mask_input.h"
#include "cli/input/matrix_argument.h"
#include "cli/input/tensor_input.h"
#include "cli/input/variant_input.h"
#include "cli/mask/allowed_pairs.h"
#include "cli/output/picture.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "rapt/attention.h"
#include "rapt/catalogue.h"
#include "rapt/rotary.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

// Two words of three numbers each, and projections to two.
constexpr const char* kEmbeddings = "1 2 3; 4 5 6";
constexpr const char* kWQuery = "0.01 0.03; 0.02 0.02; 0.03 0.01";
constexpr const char* kWKey = "0.05 0.05; 0.06 0.05; 0.07 0.05";
constexpr const char* kWValue = "0.02 0.02; 0.01 0.02; 0.01 0.01";

struct Explanation {
  std::vector<Step> steps;
  std::vector<std::string> masks, scores;
  std::string normalizer;
  double scale = 0;
  double difference = 0;  // greatest, of the library's weights and output to the plain ones
  Plan plan;
  viz::Heatmap map;
};

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

// How far a score may be off, in units of the dtype's last place: that of the plain products, one
// and one per table of relative positions, by (head_dim + 2) times the sizes of its terms, twice
// with rows of length 1, which are rounded sums themselves; those that the library returned by the
// units in which they are normalised; both by what the sum over the keys adds to a weight.
double score_error(const Attention& x, const PlainRelative& relative, double scale,
                   const Tensor& scores, bool librarys) {
  double terms = 0, most = 0;
  for (int64_t i = 0; i < x.query.dim(0); ++i) {
    for (int64_t j = 0; j < x.key.dim(0); ++j) {
      double sum = 0;
      for (int64_t c = 0; c < x.key.dim(1); ++c)
        sum += std::abs(at(x.query, i, c) * at(x.key, j, c));
      if (relative.tables > 0) sum += at(relative.sizes, i, j);
      terms = std::max(terms, std::abs(scale) * sum);
      const double score = std::abs(at(scores, i, j));
      if (std::isfinite(score)) most = std::max(most, score);
    }
  }
  const double head_dim = static_cast<double>((1 + relative.tables) * x.key.dim(1));
  const double k_len = static_cast<double>(x.key.dim(0));
  return (librarys ? 0 : 4 * (head_dim + 4) * terms) + 4 * most + 2 * k_len + 8;
}

// Rows of query and key as they are multiplied.
Attention changed_rows(const Attention& x, DType dtype, const AttentionOptions& options,
                       std::vector<Step>& steps) {
  Attention changed{copy(x.query), copy(x.key), copy(x.value)};
  const auto change = [&](const char* name, Tensor& rows) {
    std::string now = name;
    if (options.cosine) {
      rows = rounded(unit_rows(rows, options.cosine->epsilon), dtype);
      steps.push_back({"unit_" + now, now + " / length of its row",
                       "Only directions count: products are cosines.", copy(rows)});
      now = "unit_" + now;
    }
    if (options.rotary.embedding) {
      rows = copy(rotary_embedding(converted(rows, dtype), *options.rotary.embedding));
      steps.push_back({"rotated_" + std::string(name), now + ", turned",
                       "Pairs of numbers turn by an angle that grows with the position.",
                       copy(rows)});
    }
  };
  change("query", changed.query);
  change("key", changed.key);
  return changed;
}

// What relative_scores are the sum of.
std::string relative_formula(const RelativePositions& r) {
  std::string formula;
  if (r.key_rows.defined())
    formula = std::string(r.position_bias.defined() ? "position_query" : "query") +
              " key_rows[distance_rows]";
  if (r.query_rows.defined())
    formula += (formula.empty() ? "" : " + ") + std::string("key query_rows[distance_rows]");
  return formula;
}

// "scores saturate" -> "Scores saturate."
std::string sentence(std::string doc) {
  doc[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(doc[0])));
  return doc + ".";
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
  require_bias(a.bias_order, bias.defined() ? bias.view() : TensorView());

  const Tensor query = converted(x.query, dtype), key = converted(x.key, dtype);
  const Tensor value = converted(x.value, dtype);
  ScoreInput score_input;
  for (const std::string& spec : a.scores) add_score("--score " + spec, spec, &files, score_input);
  const MadeNormalizer normalizer =
      make_normalizer_with_files(a.normalizer, &files, score_input.tensors);
  const Rotary rotary = a.has_rotary ? parse_rotary(a.rotary) : Rotary();
  AttentionOptions options;
  if (!a.relative.empty())
    options.relative = parse_relative(a.relative, &files, dtype, score_input.tensors);
  options.normalizer = normalizer;
  if (a.has_cosine) options.cosine = parse_cosine(a.cosine);
  if (a.has_rotary) options.rotary.embedding = &rotary;
  if (!a.scale.empty()) options.scale = parse_real("--scale", a.scale);
  options.masks = masks.pointers;
  if (bias.defined()) options.bias = bias.view();
  options.scores = score_input.list();
  options.bias_order = bias_order_from(a.bias_order, !options.scores.empty());
  options.weights.emplace();
  e.plan = plan(query, key, value, options);
  const AttentionResult result = scaled_dot_product_attention(query, key, value, options);
  e.masks = masks.specs;
  e.scores = score_input.specs;
  e.normalizer = a.normalizer;
  e.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(x.query.dim(1))));

  Attention changed = changed_rows(x, dtype, options, e.steps);
  PlainRelative relative;
  if (options.relative.any()) {
    relative = plain_relative(options.relative, changed.query, changed.key, dtype, e.steps);
    changed.query = copy(relative.query);
  }
  const Tensor transposed = copy(changed.key.view().transposed());
  Tensor scores = product(changed.query, transposed);
  e.steps.push_back(
      {"key_transposed", "key^T", "Keys as columns, ready for the product.", copy(transposed)});
  const bool shifted = options.relative.content_bias.defined();
  e.steps.push_back({"scores", shifted ? "content_query key^T" : "query key^T",
                     "How well each query (row) fits each key (column).", copy(scores)});
  if (relative.tables > 0) {
    e.steps.push_back({"relative_scores", relative_formula(options.relative),
                       "How well it fits the distance of each key.", copy(relative.scores)});
    for (int64_t i = 0; i < scores.count(); ++i)
      scores.values<double>()[static_cast<size_t>(i)] += element(relative.scores, i);
  }
  for (double& s : scores.values<double>()) s *= e.scale;
  const std::string products = relative.tables > 0 ? "(scores + relative_scores)" : "scores";
  e.steps.push_back(
      {"scaled_scores", products + (a.scale.empty() ? " / sqrt(head_dim)" : " * scale"),
       fmt::format("Times {:.4f}, so that long vectors do not make scores extreme.", e.scale),
       copy(scores)});
  const int64_t q_len = scores.dim(0), k_len = scores.dim(1);
  const bool bias_first = options.bias_order == BiasOrder::before_scores;
  const auto add_bias = [&] {
    if (!bias.defined()) return;
    Tensor wide = broadcast_bias(copy(bias), q_len, k_len);
    for (int64_t i = 0; i < q_len; ++i)
      for (int64_t j = 0; j < k_len; ++j) at(scores, i, j) += at(wide, i, j);
    e.steps.push_back({"bias", "", "Added to the scores; -inf excludes.", std::move(wide)});
  };
  if (bias_first) add_bias();
  const std::vector<ScoreRef> refs(options.scores.begin(), options.scores.end());
  for (size_t count = 1; count <= refs.size(); ++count) {
    AttentionOptions stage = options;  // the first scores, of all pairs
    stage.scores = ScoreList(std::span<const ScoreRef>(refs).first(count));
    stage.masks = {};
    if (!bias_first) stage.bias = {};
    stage.weights->stage = WeightsStage::scores;
    scores = copy(scaled_dot_product_attention(query, key, value, stage).weights);
    e.steps.push_back({fmt::format("scores_{}", count), score_input.specs[count - 1],
                       sentence(refs[count - 1].declaration->doc), copy(scores)});
  }
  if (!bias_first) add_bias();
  const Head head{.index = {}, .q_len = q_len, .k_len = k_len};
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
    const std::string of =
        a.scores.empty() ? "scaled_scores" : fmt::format("scores_{}", a.scores.size());
    e.steps.push_back({"masked_scores", of + (bias_first ? ", masked" : ", with bias and mask"),
                       "What the normaliser sees; -inf means excluded.", copy(scores)});
  }

  Tensor row_sums(DType::f64, {q_len, 1});
  for (int64_t i = 0; i < q_len; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < k_len; ++j) sum += element(result.weights, i * k_len + j);
    at(row_sums, i, 0) = sum;
  }
  const bool softmax = a.normalizer == "softmax";
  e.steps.push_back({"weights",
                     softmax ? "softmax(scores) per row" : a.normalizer + " of the scores, per row",
                     softmax ? "Which share of each value a query takes."
                             : sentence(options.normalizer.declaration->doc),
                     copy(result.weights)});
  e.steps.push_back({"row_sums", "sum of each row of weights",
                     softmax ? "1 each, or 0 for a query that may attend to nothing."
                             : "How much a query takes altogether.",
                     std::move(row_sums)});
  if (relative.values.defined()) {
    e.steps.push_back({"relative_values", "sum of weights value_rows[distance_rows], per row",
                       "What the distances add to the values of each query.",
                       weighted(result.weights, relative.values)});
  }
  e.steps.push_back(
      {"output", relative.values.defined() ? "weights value + relative_values" : "weights value",
       "One row per query: the mixture of the values.", copy(result.output)});

  const double eps = dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
  const Off off{eps * score_error(changed, relative, e.scale, scores, !a.scores.empty()), eps};
  const PlainResult plain = plain_result(scores, x.value, relative.values, allowed,
                                         reference_of(options.normalizer, k_len), off);
  e.difference = std::max(difference_of(copy(result.weights), plain.weights),
                          difference_of(copy(result.output), plain.output));
  if (!(e.difference <= plain.tolerance)) {
    throw Failure(Exit::differs,
                  fmt::format("the library's result differs from the plain computation by {:.3g}; "
                              "rounding explains {:.3g}",
                              e.difference, plain.tolerance),
                  "please report it, with these inputs");
  }

  e.map.rows = q_len;
  e.map.columns = k_len;
  for (int64_t i = 0; i < q_len * k_len; ++i) {
    e.map.values.push_back(static_cast<float>(element(result.weights, i)));
  }
  e.map.allowed = allowed;
  e.map.title = "Attention weights";
  if (a.has_cosine) e.map.title += ", cosine";
  if (a.has_rotary) e.map.title += ", rotary";
  if (!a.relative.empty()) e.map.title += ", relative";
  for (const std::string& spec : a.scores) e.map.title += ", " + spec;
  if (!softmax) e.map.title += ", " + a.normalizer;
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
  document["scores"] = e.scores;
  document["normalizer"] = e.normalizer;
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
  add_explain_options(*app, *a);
  return {app, [app, a] { check_explain_usage(*app, *a); }, [a] { run_explain(*a); }};
}

}  // namespace rapt::cli

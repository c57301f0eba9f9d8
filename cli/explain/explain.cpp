// rapt explain: attention step by step on small matrices, every number shown.
//
//   query = embeddings w_query    key = embeddings w_key    value = embeddings w_value
//   scores = query key^T    scaled = scale * scores, each --score, + bias    excluded pairs: -inf
//   weights = softmax, or another normaliser, of each row of scaled    output = weights value
//
// Relative positions add to scores and values (explain_relative.h). The library computes weights
// and output, score functions and rotary embedding. The other steps are computed here in plain
// float64. The same code also computes weights and output (explain_plain.h), which must agree with
// those of the library within rounding.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "cli/commands.h"
#include "cli/explain/explain_arguments.h"
#include "cli/explain/explain_call.h"
#include "cli/explain/explain_plain.h"
#include "cli/explain/explain_relative.h"
#include "cli/explain/explain_step.h"
#include "cli/files/conversion.h"
#include "cli/input/arguments.h"
#include "cli/input/tensor_input.h"
#include "cli/mask/allowed_pairs.h"
#include "cli/output/picture.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "rapt/attention.h"
#include "rapt/rotary.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

// The largest difference between the library's weights and output and the plain ones, and what
// rounding explains.
struct Difference {
  double found = 0, allowed = 0;
};

struct Explanation {
  std::vector<Step> steps;
  std::vector<std::string> masks, scores;
  std::string normalizer;
  double scale = 0;
  Difference difference;
  Plan plan;
  viz::Heatmap map;
};

// An error bound of a score, in units of the dtype's last place. For the plain products it grows
// with the number of products per score, (1 + tables) head_dim, times the sizes of their terms; the
// factor includes rows of length 1, which are themselves rounded sums. Scores that the library
// returned only have the error of the units in which they are normalised. Both include the effect
// on a weight of the sum over the keys.
double score_error(const PlainInputs& x, const PlainRelative& relative, double scale,
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

// The rows of query and key after the row transforms.
PlainInputs changed_rows(const PlainInputs& x, DType dtype, const AttentionOptions& options,
                         std::vector<Step>& steps) {
  PlainInputs changed{f64_copy(x.query), f64_copy(x.key), f64_copy(x.value)};
  const auto change = [&](const char* name, Tensor& rows) {
    std::string now = name;
    if (options.cosine) {
      rows = rounded(unit_rows(rows, options.cosine->epsilon), dtype);
      steps.push_back({"unit_" + now, now + " / length of its row",
                       "Only directions count: products are cosines.", f64_copy(rows)});
      now = "unit_" + now;
    }
    if (options.rotary.embedding) {
      rows = f64_copy(rotary_embedding(converted(rows, dtype), *options.rotary.embedding));
      steps.push_back({"rotated_" + std::string(name), now + ", turned",
                       "Pairs of numbers turn by an angle that grows with the position.",
                       f64_copy(rows)});
    }
  };
  change("query", changed.query);
  change("key", changed.key);
  return changed;
}

// The terms of relative_scores.
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

// The rows of query and key after the row transforms, and their products.
struct Products {
  PlainInputs rows;
  PlainRelative relative;
  Tensor scores;  // f64 [q_len, k_len], scaled
};

// Adds steps from the rows of query and key to scaled scores.
Products multiply(const ExplainedCall& call, double scale, std::vector<Step>& steps) {
  Products p;
  p.rows = changed_rows(call.plain, call.dtype, call.options, steps);
  const RelativePositions& positions = call.options.relative;
  if (positions.any()) {
    p.relative = plain_relative(positions, p.rows.query, p.rows.key, call.dtype, steps);
    p.rows.query = f64_copy(p.relative.query);
  }
  const Tensor transposed = f64_copy(p.rows.key.view().transposed());
  p.scores = product(p.rows.query, transposed);
  steps.push_back(
      {"key_transposed", "key^T", "Keys as columns, ready for the product.", f64_copy(transposed)});
  const bool shifted = positions.content_bias.defined();
  steps.push_back({"scores", shifted ? "content_query key^T" : "query key^T",
                   "How well each query (row) fits each key (column).", f64_copy(p.scores)});
  if (p.relative.tables > 0) {
    steps.push_back({"relative_scores", relative_formula(positions),
                     "How well it fits the distance of each key.", f64_copy(p.relative.scores)});
    for (int64_t i = 0; i < p.scores.count(); ++i)
      p.scores.values<double>()[static_cast<size_t>(i)] += element(p.relative.scores, i);
  }
  for (double& s : p.scores.values<double>()) s *= scale;
  const std::string products = p.relative.tables > 0 ? "(scores + relative_scores)" : "scores";
  steps.push_back(
      {"scaled_scores", products + (call.options.scale ? " * scale" : " / sqrt(head_dim)"),
       fmt::format("Times {:.4f}, so that long vectors do not make scores extreme.", scale),
       f64_copy(p.scores)});
  return p;
}

void add_bias(const Tensor& bias, Tensor& scores, std::vector<Step>& steps) {
  if (!bias.defined()) return;
  Tensor wide = broadcast_bias(f64_copy(bias), scores.dim(0), scores.dim(1));
  for (int64_t i = 0; i < scores.dim(0); ++i)
    for (int64_t j = 0; j < scores.dim(1); ++j) at(scores, i, j) += at(wide, i, j);
  steps.push_back({"bias", "", "Added to the scores; -inf excludes.", std::move(wide)});
}

// Adds a step for the bias and one for each --score.
void change_scores(const ExplainedCall& call, Tensor& scores, std::vector<Step>& steps) {
  const AttentionOptions& options = call.options;
  const bool bias_first = options.bias_order == BiasOrder::before_scores;
  if (bias_first) add_bias(call.bias, scores, steps);
  const std::vector<ScoreRef> refs(options.scores.begin(), options.scores.end());
  for (size_t count = 1; count <= refs.size(); ++count) {
    AttentionOptions stage = options;  // the first scores, of all pairs
    stage.scores = ScoreList(std::span<const ScoreRef>(refs).first(count));
    stage.masks = {};
    if (!bias_first) stage.bias = {};
    stage.weights->stage = WeightsStage::scores;
    scores =
        f64_copy(scaled_dot_product_attention(call.query, call.key, call.value, stage).weights);
    steps.push_back({fmt::format("scores_{}", count), call.scores.specs[count - 1],
                     sentence(refs[count - 1].declaration->doc), f64_copy(scores)});
  }
  if (!bias_first) add_bias(call.bias, scores, steps);
}

// Masks pairs out; adds a step for the mask and one for the masked scores. Returns a byte per pair,
// 1 = may attend.
std::vector<uint8_t> exclude_pairs(const ExplainedCall& call, Tensor& scores,
                                   std::vector<Step>& steps) {
  const int64_t q_len = scores.dim(0), k_len = scores.dim(1);
  const Head head{.index = {}, .q_len = q_len, .k_len = k_len};
  const MaskInput& masks = call.masks;
  std::vector<uint8_t> allowed = allowed_pairs(masks.pointers, call.options.bias, head);
  if (!masks.masks.empty()) {
    const std::vector<uint8_t> by_masks = allowed_pairs(masks.pointers, {}, head);
    Tensor mask(DType::f64, {q_len, k_len});
    std::copy(by_masks.begin(), by_masks.end(), mask.values<double>().begin());
    steps.push_back(
        {"mask", "", "1 where the query may attend to the key, else 0.", std::move(mask)});
  }
  for (size_t i = 0; i < allowed.size(); ++i)
    if (!allowed[i]) scores.values<double>()[i] = -std::numeric_limits<double>::infinity();
  if (!masks.masks.empty() || call.bias.defined()) {
    const size_t count = call.scores.specs.size();
    const std::string of = count == 0 ? "scaled_scores" : fmt::format("scores_{}", count);
    const bool bias_first = call.options.bias_order == BiasOrder::before_scores;
    steps.push_back({"masked_scores", of + (bias_first ? ", masked" : ", with bias and mask"),
                     "What the normaliser sees; -inf means excluded.", f64_copy(scores)});
  }
  return allowed;
}

Tensor sums_of_rows(const Tensor& weights) {
  Tensor sums(DType::f64, {weights.dim(0), 1});
  for (int64_t i = 0; i < weights.dim(0); ++i) {
    double sum = 0;
    for (int64_t j = 0; j < weights.dim(1); ++j) sum += element(weights, i * weights.dim(1) + j);
    at(sums, i, 0) = sum;
  }
  return sums;
}

bool is_softmax(const std::string& normalizer) { return normalizer == "softmax"; }

// Adds steps for the library's weights and output.
void show_result(const AttentionResult& result, const std::string& normalizer,
                 const ExplainedCall& call, const Tensor& relative_values,
                 std::vector<Step>& steps) {
  const bool softmax = is_softmax(normalizer), relative = relative_values.defined();
  steps.push_back({"weights",
                   softmax ? "softmax(scores) per row" : normalizer + " of the scores, per row",
                   softmax ? "Which share of each value a query takes."
                           : sentence(call.options.normalizer.declaration->doc),
                   f64_copy(result.weights)});
  steps.push_back({"row_sums", "sum of each row of weights",
                   softmax ? "1 each, or 0 for a query that may attend to nothing."
                           : "How much a query takes altogether.",
                   sums_of_rows(result.weights)});
  if (relative) {
    steps.push_back({"relative_values", "sum of weights value_rows[distance_rows], per row",
                     "What the distances add to the values of each query.",
                     weighted(result.weights, relative_values)});
  }
  steps.push_back({"output", relative ? "weights value + relative_values" : "weights value",
                   "One row per query: the mixture of the values.", f64_copy(result.output)});
}

// Compares the library's result with the plain computation. Throws Failure if rounding does not
// explain the difference.
Difference checked_difference(const AttentionResult& result, const ExplainedCall& call,
                              const Products& products, double scale,
                              const std::vector<uint8_t>& allowed) {
  const double eps = call.dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
  const Tensor& scores = products.scores;
  const Off off{eps * score_error(products.rows, products.relative, scale, scores,
                                  !call.options.scores.empty()),
                eps};
  const PlainResult plain =
      plain_result(scores, call.plain.value, products.relative.values, allowed,
                   reference_of(call.options.normalizer, scores.dim(1)), off);
  const double difference = std::max(difference_of(f64_copy(result.weights), plain.weights),
                                     difference_of(f64_copy(result.output), plain.output));
  if (!(difference <= plain.tolerance)) {
    throw Failure(Exit::differs,
                  fmt::format("the library's result differs from the plain computation by {:.3g}; "
                              "rounding explains {:.3g}",
                              difference, plain.tolerance),
                  "please report it, with these inputs");
  }
  return {difference, plain.tolerance};
}

viz::Heatmap map_of(const ExplainArguments& a, const Tensor& weights,
                    const std::vector<uint8_t>& allowed) {
  viz::Heatmap map;
  map.rows = weights.dim(0);
  map.columns = weights.dim(1);
  for (int64_t i = 0; i < weights.count(); ++i)
    map.values.push_back(static_cast<float>(element(weights, i)));
  map.allowed = allowed;
  map.title = "Attention weights";
  if (a.has_cosine) map.title += ", cosine";
  if (a.has_rotary) map.title += ", rotary";
  if (!a.relative.empty()) map.title += ", relative";
  for (const std::string& spec : a.scores) map.title += ", " + spec;
  if (!is_softmax(a.normalizer)) map.title += ", " + a.normalizer;
  for (int64_t i = 0; i < map.rows; ++i) map.row_labels.push_back(fmt::format("Query {}", i));
  for (int64_t j = 0; j < map.columns; ++j) map.column_labels.push_back(fmt::format("Key {}", j));
  return map;
}

Explanation explain(const ExplainArguments& a) {
  MemoryBudget budget(-1);
  TensorInput files(budget, parse_npy_v2(a.npy_v2));
  Explanation e;
  const ExplainedCall call(a, files, e.steps);
  e.plan = plan(call.query, call.key, call.value, call.options);
  const AttentionResult result =
      scaled_dot_product_attention(call.query, call.key, call.value, call.options);
  e.masks = call.masks.specs;
  e.scores = call.scores.specs;
  e.normalizer = a.normalizer;
  e.scale =
      call.options.scale.value_or(1 / std::sqrt(static_cast<double>(call.plain.query.dim(1))));

  Products products = multiply(call, e.scale, e.steps);
  change_scores(call, products.scores, e.steps);
  const std::vector<uint8_t> allowed = exclude_pairs(call, products.scores, e.steps);
  show_result(result, a.normalizer, call, products.relative.values, e.steps);
  e.difference = checked_difference(result, call, products, e.scale, allowed);
  e.map = map_of(a, result.weights, allowed);
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
      e.plan.isa, e.difference.found);
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
  document["difference"] = e.difference.found;
  document["allowed_difference"] = e.difference.allowed;
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

// rapt explain: attention step by step on small matrices, every number shown.
//
//   query = embeddings w_query    key = embeddings w_key    value = embeddings w_value
//   scores = query key^T    scaled = scale * scores, each --score, + bias    excluded pairs: -inf
//   weights = softmax, or another normaliser, of each row of scaled    output = weights value
//
// Weights and output are the library's own, and so is what scores and rotary embedding make. The
// other steps are computed here, plainly and in float64, and carried on to weights and output
// (explain_plain.h): the two must agree within rounding.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "allowed_pairs.h"
#include "arguments.h"
#include "choices.h"
#include "commands.h"
#include "conversion.h"
#include "explain_plain.h"
#include "failure.h"
#include "interrupt.h"
#include "mask_input.h"
#include "matrix_argument.h"
#include "memory.h"
#include "picture.h"
#include "rapt/attention.h"
#include "rapt/catalogue.h"
#include "rapt/rotary.h"
#include "rapt/version.h"
#include "tensor_input.h"
#include "tensor_text.h"
#include "variant_input.h"

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
  std::vector<std::string> masks, scores;
  std::string bias, scale, dtype = "f32", normalizer = "softmax", npy_v2;
  std::string rotary, cosine;  // the parameters, epsilon
  bool has_rotary = false, has_cosine = false;
  PictureArguments picture;
  bool json = false, force = false;
};

struct Step {
  std::string name, formula, doc;
  Tensor matrix;  // f64 [rows, columns]
};

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

// How far a score may be off, in units of the dtype's last place: that of the plain product by
// (head_dim + 2) times the sizes of its terms, twice with rows of length 1, which are rounded sums
// themselves; those that the library returned by the units in which they are normalised; both by
// what the sum over the keys adds to a weight.
double score_error(const Attention& x, double scale, const Tensor& scores, bool librarys) {
  double terms = 0, most = 0;
  for (int64_t i = 0; i < x.query.dim(0); ++i) {
    for (int64_t j = 0; j < x.key.dim(0); ++j) {
      double sum = 0;
      for (int64_t c = 0; c < x.key.dim(1); ++c)
        sum += std::abs(at(x.query, i, c) * at(x.key, j, c));
      terms = std::max(terms, std::abs(scale) * sum);
      const double score = std::abs(at(scores, i, j));
      if (std::isfinite(score)) most = std::max(most, score);
    }
  }
  const double head_dim = static_cast<double>(x.key.dim(1));
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

  const Tensor query = converted(x.query, dtype), key = converted(x.key, dtype);
  const Tensor value = converted(x.value, dtype);
  ScoreInput score_input;
  for (const std::string& spec : a.scores) add_score("--score " + spec, spec, &files, score_input);
  const MadeNormalizer normalizer = made_normalizer(a.normalizer, &files, score_input.tensors);
  const Rotary rotary = a.has_rotary ? made_rotary(a.rotary) : Rotary();
  AttentionOptions options;
  options.normalizer = normalizer;
  if (a.has_cosine) options.cosine = made_cosine(a.cosine);
  if (a.has_rotary) options.rotary.embedding = &rotary;
  if (!a.scale.empty()) options.scale = parse_real("--scale", a.scale);
  options.masks = masks.pointers;
  if (bias.defined()) options.bias = bias.view();
  options.scores = score_input.list();
  options.weights.emplace();
  e.plan = plan(query, key, value, options);
  const AttentionResult result = scaled_dot_product_attention(query, key, value, options);
  e.masks = masks.specs;
  e.scores = score_input.specs;
  e.normalizer = a.normalizer;
  e.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(x.query.dim(1))));

  const Attention changed = changed_rows(x, dtype, options, e.steps);
  const Tensor transposed = copy(changed.key.view().transposed());
  Tensor scores = product(changed.query, transposed);
  e.steps.push_back(
      {"key_transposed", "key^T", "Keys as columns, ready for the product.", copy(transposed)});
  e.steps.push_back(
      {"scores", "query key^T", "How well each query (row) fits each key (column).", copy(scores)});
  for (double& s : scores.values<double>()) s *= e.scale;
  e.steps.push_back(
      {"scaled_scores", a.scale.empty() ? "scores / sqrt(head_dim)" : "scores * scale",
       fmt::format("Times {:.4f}, so that long vectors do not make scores extreme.", e.scale),
       copy(scores)});
  const std::vector<ScoreRef> refs(options.scores.begin(), options.scores.end());
  for (size_t count = 1; count <= refs.size(); ++count) {
    AttentionOptions stage = options;  // the first scores, of all pairs
    stage.scores = ScoreList(std::span<const ScoreRef>(refs).first(count));
    stage.masks = {};
    stage.bias = {};
    stage.weights->stage = WeightsStage::scores;
    scores = copy(scaled_dot_product_attention(query, key, value, stage).weights);
    e.steps.push_back({fmt::format("scores_{}", count), score_input.specs[count - 1],
                       sentence(refs[count - 1].declaration->doc), copy(scores)});
  }
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
    e.steps.push_back({"bias", "", "Added to the scores; -inf excludes.", std::move(wide)});
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
    const std::string of =
        a.scores.empty() ? "scaled_scores" : fmt::format("scores_{}", a.scores.size());
    e.steps.push_back({"masked_scores", of + ", with bias and mask",
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
  e.steps.push_back({"output", "weights value", "One row per query: the mixture of the values.",
                     copy(result.output)});

  const double eps = dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
  const Off off{eps * score_error(changed, e.scale, scores, !a.scores.empty()), eps};
  const PlainResult plain =
      plain_result(scores, x.value, allowed, reference_of(options.normalizer, k_len), off);
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
  ScoreInput without_files;
  for (const std::string& spec : a.scores)
    add_score("--score " + spec, spec, nullptr, without_files);
  (void)without_files.list();
  (void)made_normalizer(a.normalizer, nullptr, without_files.tensors);
  if (a.has_cosine) (void)made_cosine(a.cosine);
  if (a.has_rotary) (void)made_rotary(a.rotary);
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
  app->add_option("--score", a->scores, "what else happens to scores, in this order (repeatable)")
      ->type_name("SPEC")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  text("--normalizer", a->normalizer, "NAME", "how scores become weights (default softmax)");
  app->add_option("--rotary", a->rotary,
                  "turn query and key rows by their positions: theta=500000, interleaved, ...")
      ->type_name("[SPEC]")
      ->expected(0, 1);
  app->add_option("--cosine", a->cosine,
                  "divide query and key rows by their lengths, at least EPSILON (default 1e-12)")
      ->type_name("[EPSILON]")
      ->expected(0, 1);
  text("--dtype", a->dtype, "T", "compute in f32 (default) or f64");
  app->add_flag("--json", a->json, "the same for programs (docs/json.md)");
  app->add_flag("--force,-f", a->force, "overwrite existing files");
  add_npy_v2_option(*app, a->npy_v2);
  add_picture_options(*app, a->picture);
  offer(app->get_option("--mask"), mask_words());
  offer(app->get_option("--dtype"), {"f32", "f64"});
  offer(app->get_option("--score"), score_words());
  offer(app->get_option("--normalizer"), normalizer_words());
  app->footer(
      "Without matrices the built-in example is explained: two words, [1 2 3] and [4 5 6].");
  return {app,
          [app, a] {
            refuse_unknown(*app);
            refuse_empty(*app);
            a->has_cosine = app->get_option("--cosine")->count() > 0;
            a->has_rotary = app->get_option("--rotary")->count() > 0;
            check_usage(*a);
          },
          [a] { run_explain(*a); }};
}

}  // namespace rapt::cli

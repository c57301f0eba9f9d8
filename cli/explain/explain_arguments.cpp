// The options of `rapt explain`.
#include "cli/explain/explain_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/input/arguments.h"
#include "cli/input/bias_order.h"
#include "cli/input/choices.h"
#include "cli/input/mask_input.h"
#include "cli/input/matrix_argument.h"
#include "cli/input/tensor_input.h"
#include "cli/input/variant_input.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

// Larger matrices no longer fit on a line.
constexpr int64_t kMostRows = 32;

void check_together(const ExplainArguments& a) {
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
  (void)make_normalizer_with_files(a.normalizer, nullptr, without_files.tensors);
  if (a.has_cosine) (void)parse_cosine(a.cosine);
  if (a.has_rotary) (void)parse_rotary(a.rotary);
  (void)bias_order_from(a.bias_order, !a.scores.empty());
  if (!a.relative.empty()) (void)relative_names(a.relative);
  const std::pair<const char*, const std::string*> matrices[] = {
      {"--embeddings", &a.embeddings}, {"--w-query", &a.w_query}, {"--w-key", &a.w_key},
      {"--w-value", &a.w_value},       {"--query", &a.query},     {"--key", &a.key},
      {"--value", &a.value},           {"--bias", &a.bias}};
  for (const auto& [option, text] : matrices)
    if (is_matrix_text(*text)) check_small(option, parse_matrix(option, *text));
}

}  // namespace

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

void add_explain_options(CLI::App& app, ExplainArguments& a) {
  const auto text = [&](const char* name, std::string& value, const char* type, const char* doc) {
    app.add_option(name, value, doc)->type_name(type);
  };
  text("--embeddings", a.embeddings, "M",
       "one row per word: \"1 2 3; 4 5 6\" or a file, such as F.npy or F.npz:NAME");
  text("--w-query", a.w_query, "M", "projection of the embeddings to queries");
  text("--w-key", a.w_key, "M", "projection of the embeddings to keys");
  text("--w-value", a.w_value, "M", "projection of the embeddings to values");
  text("--query", a.query, "M", "instead of embeddings: the queries");
  text("--key", a.key, "M", "the keys");
  text("--value", a.value, "M", "the values");
  app.add_option("--mask", a.masks, "as for 'rapt attend' (repeatable)")
      ->type_name("SPEC")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  text("--bias", a.bias, "M", "added to the scaled scores");
  text("--bias-order", a.bias_order, "NAME", kBiasOrderDoc);
  text("--scale", a.scale, "X", "of the dot products (default 1/sqrt(head_dim))");
  app.add_option("--score", a.scores, "what else happens to scores, in this order (repeatable)")
      ->type_name("SPEC")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  text("--normalizer", a.normalizer, "NAME", "how scores become weights (default softmax)");
  app.add_option("--rotary", a.rotary,
                 "turn query and key rows by their positions: theta=500000, interleaved, ...")
      ->type_name("[SPEC]")
      ->expected(0, 1);
  app.add_option("--cosine", a.cosine,
                 "divide query and key rows by their lengths, at least EPSILON (default 1e-12)")
      ->type_name("[EPSILON]")
      ->expected(0, 1);
  text(
      "--relative", a.relative, "SPEC",
      "rows for each distance of a key: key_rows=F.npy or key_rows=1 2; 3 4; 5 6, ... as for 'rapt "
      "attend'");
  text("--dtype", a.dtype, "T", "compute in f32 (default) or f64");
  app.add_flag("--json", a.json, "the same for programs (docs/json.md)");
  app.add_flag("--force,-f", a.force, "overwrite existing files");
  add_npy_v2_option(app, a.npy_v2);
  add_picture_options(app, a.picture);
  offer(app.get_option("--mask"), mask_words());
  offer(app.get_option("--dtype"), {"f32", "f64"});
  offer(app.get_option("--bias-order"), bias_order_words());
  offer(app.get_option("--score"), score_words());
  offer(app.get_option("--normalizer"), normalizer_words());
  app.footer("Without matrices the built-in example is explained: two words, [1 2 3] and [4 5 6].");
}

void check_explain_usage(const CLI::App& app, ExplainArguments& a) {
  a.has_cosine = app.get_option("--cosine")->count() > 0;
  a.has_rotary = app.get_option("--rotary")->count() > 0;
  check_together(a);
}

}  // namespace rapt::cli

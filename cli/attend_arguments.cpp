// The options of `rapt attend`. Their names are a contract: scripts of others rely on them.
#include "attend_arguments.h"

#include <algorithm>
#include <filesystem>

#include "arguments.h"
#include "failure.h"
#include "rapt/catalogue.h"

namespace rapt::cli {
namespace {

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

void check_normalizer(const std::string& name) {
  std::vector<std::string_view> known;
  for (const Declaration* declaration : normalizer_declarations())
    known.push_back(declaration->name);
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string meant = did_you_mean(name, known);
  throw not_built("--normalizer " + name, meant.empty() ? "softmax is" : meant);
}

void check_together(const AttendArguments& a) {
  const bool files = !a.query.empty() || !a.key.empty() || !a.value.empty();
  if (!a.text.empty() && files) {
    throw usage_error("--text makes query, key and value; it cannot be joined by files for them");
  }
  if (a.text.empty() && (a.query.empty() || a.key.empty() || a.value.empty())) {
    throw usage_error("expected --query, --key and --value, or --text");
  }
  if (a.text.empty() && (!a.dim.empty() || !a.heads.empty())) {
    throw usage_error("--dim and --heads belong to --text");
  }
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
    const auto path =
        std::filesystem::weakly_canonical(std::filesystem::absolute(name, ignored), ignored);
    if (std::find(paths.begin(), paths.end(), path) != paths.end()) {
      throw usage_error("'" + name + "' is named as two outputs");
    }
    paths.push_back(path);
  }
}

}  // namespace

void add_attend_options(CLI::App& app, AttendArguments& a) {
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
  text("--heads", a.heads, "H", "Input",
       "heads that the numbers of --text are dealt to (default 1)");
  text("--dtype", a.dtype, "T", "Input", "convert the inputs to f32 or f64 (default: the query's)");
  many("--mask", a.masks, "SPEC", "Attention",
       "causal, causal:bottom-right, causal:OFFSET, window:LEFT,RIGHT[:ANCHOR], prefix:LENGTH, "
       "lengths:F.npy, documents:IDS.npy, documents_by_starts:F.npy, file:M.npy (true = may "
       "attend); \"causal|prefix(8)\", with ! & | and parentheses; repeatable, combined by 'and'");
  text("--bias", a.bias, "F", "Attention", "added to the scaled scores; -inf excludes");
  text("--scale", a.scale, "X", "Attention",
       "of the dot products (default 1/sqrt(d); 5 times the heads for --text)");
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
  add_unbuilt(app, kUnbuilt);
  app.footer(
      "Without an output a summary is printed. RAPT_ISA=scalar|avx2|avx512 names the highest\n"
      "instruction set that may be used.\n\n"
      "  rapt attend --query q.npy --key k.npy --value v.npy --mask causal --output o.npy\n"
      "  rapt attend --text \"the cat sat because the cat was tired\" --heatmap -");
}

void check_attend_usage(const CLI::App& app, const AttendArguments& arguments) {
  refuse_unbuilt(app, kUnbuilt);
  refuse_unknown(app);
  refuse_empty(app);
  check_together(arguments);
  check_normalizer(arguments.normalizer);
}

}  // namespace rapt::cli

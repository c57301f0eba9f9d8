#include "cli/compare/compare_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/alternatives/alternative.h"
#include "cli/attend/attend_input.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/input/mask_input.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

constexpr int64_t kLength = 1024, kHeadDim = 64;
constexpr int64_t kMostHeads = 4096, kMostHeadDim = 65'536, kMostLength = int64_t{1} << 30;
constexpr int kSeeds = 5, kMostSeeds = 1'000;
constexpr int64_t kDrawnRows = 256;

CLI::Option* text_option(CLI::App& app, const char* name, std::string& value, const char* type,
                         const char* group, const std::string& doc) {
  return app.add_option(name, value, doc)->type_name(type)->group(group);
}

void add_inputs(CLI::App& app, CompareArguments& a) {
  const auto input = [&](const char* name, std::string& value, const char* type,
                         const std::string& doc) {
    return text_option(app, name, value, type, "Input", doc);
  };
  input("--query", a.query, "F", "query [..., q_len, d]: F.npy, F.npz:NAME, F.safetensors:NAME");
  input("--key", a.key, "F", "key [..., k_len, d]; the file of --query: one view for both");
  input("--value", a.value, "F", "value [..., k_len, d_v]");
  input("--text", a.text, "TEXT", "instead: query = key = value from a sentence, a file, or @file");
  input("--dim", a.dim, "D", "numbers per word of --text (default 128)");
  offer(
      input("--input", a.input, "NAME",
            "instead: made inputs: normal(S), rows N(0, S^2); needle, one key matches each query; "
            "clustered, query = key around 8 centres; equal, all rows; huge-key, one key 32 "
            "times as large (default normal(1))"),
      {"normal:", "needle", "clustered", "equal", "huge-key"});
  input("--q-len", a.q_len, "N", fmt::format("rows of made inputs (default {})", kLength));
  input("--head-dim", a.head_dim, "D", fmt::format("their numbers (default {})", kHeadDim));
  input("--heads", a.heads, "H", "heads of made inputs and of --text (default 1)");
  offer(input("--dtype", a.dtype, "T",
              "convert the inputs to f32, bf16, f16 or f64 (default: the query's, or f32)"),
        float_words());
  input("--seed", a.seed, "N", "of made inputs, of drawn rows and of d_output (default 0)");
}

void add_attention(CLI::App& app, CompareArguments& a) {
  offer(app.add_option("--mask", a.masks,
                       "of all calls, as in rapt attend (repeatable, combined by 'and')")
            ->type_name("SPEC")
            ->group("Attention")
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll),
        mask_words());
  text_option(app, "--scale", a.scale, "X", "Attention",
              "of the dot products (default 1/sqrt(d); 1 for clustered; 5 times the heads for "
              "--text)");
}

void add_comparison(CLI::App& app, CompareArguments& a) {
  const auto compare = [&](const char* name, std::string& value, const char* type,
                           const std::string& doc) {
    return text_option(app, name, value, type, "Comparison", doc);
  };
  add_alternatives_option(app, a.methods);
  app.get_option("--method")->group("Comparison");
  app.add_flag("--gradients", a.gradients,
               "also the errors of d_query, d_key and d_value for a drawn d_output, and the "
               "time of the backward pass")
      ->group("Comparison");
  compare("--seeds", a.seeds, "N",
          fmt::format("seeds of methods that draw, and timed calls of each (default {})", kSeeds));
  compare("--rows", a.rows, "N",
          fmt::format("queries of each head whose exact weights are looked at (default {})",
                      kDrawnRows));
  offer(compare("--reference", a.reference, "T",
                "what is exact: call (default; the exact call in the inputs' dtype) or f64"),
        {"call", "f64"});
  compare("--max-error", a.max_error, "X",
          "exit with 1 if the relative error of a method's output is larger");
}

void check_sources(const CompareArguments& a) {
  const bool files = !a.query.empty() || !a.key.empty() || !a.value.empty();
  if (files + !a.text.empty() + !a.input.empty() > 1)
    throw usage_error("--query, --key and --value, --text, and --input exclude each other");
  if (files && (a.query.empty() || a.key.empty() || a.value.empty()))
    throw usage_error("--query, --key and --value belong together");
  const bool made = !files && a.text.empty();
  if (!made && !(a.q_len.empty() && a.head_dim.empty()))
    throw usage_error("--q-len and --head-dim are sizes of made inputs (--input)");
  if (!a.dim.empty() && a.text.empty()) throw usage_error("--dim belongs to --text");
  if (files && !a.heads.empty())
    throw usage_error("--heads belongs to --input and --text; files have their shapes");
}

void check_chart(const CompareArguments& a) {
  check_chart_options(a.chart);
  constexpr size_t kWindows = 2;  // of both kinds of keys
  if (!a.chart.targets.empty() && a.methods.size() + kWindows > viz::kMaxSeries)
    throw usage_error(fmt::format("--output: expected at most {} --method, got {}",
                                  viz::kMaxSeries - kWindows, a.methods.size()));
  if (a.json && std::ranges::find(a.chart.targets, "-") != a.chart.targets.end())
    throw usage_error("--json and --output - both need standard output");
}

}  // namespace

void add_compare_options(CLI::App& app, CompareArguments& a) {
  add_inputs(app, a);
  add_attention(app, a);
  add_comparison(app, a);
  add_npy_v2_option(app, a.npy_v2);
  add_chart_options(app, a.chart, "errors against time");
  app.add_flag("--json", a.json, "one document for programs on standard output (docs/json.md)")
      ->group("Output");
  app.add_flag("--force,-f", a.force, "overwrite existing files")->group("Output");
  text_option(app, "--memory-limit", a.memory_limit, "SIZE", "Limits",
              "refuse to take more, 512M or 8GiB (default: what is available)");
  app.footer(
      "Beside the methods stand exact attention, the mean of the values that a query attends to,\n"
      "and for each method the window of as many pairs (of as many operations for favor and\n"
      "linear). Every call is computed on one thread; times are its CPU time.\n\n"
      "  rapt compare --input clustered --method \"lsh(rounds={1,4,16})\"\n"
      "  rapt compare --query q.npy --key k.npy --value v.npy --mask causal --method favor");
}

void check_compare_usage(const CompareArguments& a) {
  if (a.methods.empty())
    throw usage_error("expected --method SPEC, what is compared with exact attention",
                      "'rapt list methods' shows methods; mask=, precision=, dtype= and norm= "
                      "change one option");
  for (AlternativeSpec& spec : alternative_specs(a.methods)) Alternative(std::move(spec), nullptr);
  check_sources(a);
  made_input(a);
  made_sizes(a);
  compare_seeds(a);
  compare_rows(a);
  most_error(a);
  in_doubles(a);
  dtype_named("--dtype", a.dtype);
  if (!a.scale.empty()) parse_real("--scale", a.scale);
  check_masks(a.masks);
  parse_memory_limit(a.memory_limit);
  parse_npy_v2(a.npy_v2);
  check_chart(a);
  if (!a.text.empty()) check_input_options(inputs_as_of_attend(a));
}

AttendArguments inputs_as_of_attend(const CompareArguments& a) {
  AttendArguments attend;
  attend.query = a.query;
  attend.key = a.key;
  attend.value = a.value;
  attend.text = a.text;
  attend.dim = a.dim;
  attend.heads = a.heads;
  attend.dtype = a.dtype;
  return attend;
}

std::optional<MadeInput> made_input(const CompareArguments& a) {
  if (!a.query.empty() || !a.text.empty()) return std::nullopt;
  return parse_made_input(a.input.empty() ? "normal(1)" : a.input);
}

MadeSizes made_sizes(const CompareArguments& a) {
  return {integer_within("--heads", a.heads, 1, 1, kMostHeads),
          integer_within("--q-len", a.q_len, kLength, 1, kMostLength),
          integer_within("--head-dim", a.head_dim, kHeadDim, 1, kMostHeadDim),
          static_cast<uint64_t>(integer_from("--seed", a.seed, 0, 0))};
}

int compare_seeds(const CompareArguments& a) {
  return static_cast<int>(integer_within("--seeds", a.seeds, kSeeds, 1, kMostSeeds));
}

int64_t compare_rows(const CompareArguments& a) {
  return integer_from("--rows", a.rows, kDrawnRows, 1);
}

std::optional<double> most_error(const CompareArguments& a) {
  if (a.max_error.empty()) return std::nullopt;
  const double error = parse_real("--max-error", a.max_error);
  if (error < 0) throw usage_error("--max-error: expected 0 or more, got " + a.max_error);
  return error;
}

bool in_doubles(const CompareArguments& a) {
  if (a.reference.empty() || a.reference == "call") return false;
  if (a.reference == "f64") return true;
  throw usage_error("--reference: expected call or f64, got '" + a.reference + "'");
}

}  // namespace rapt::cli

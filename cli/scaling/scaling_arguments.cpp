#include "cli/scaling/scaling_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/alternatives/alternative_spec.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/measure/described_problem.h"
#include "cli/process/failure.h"
#include "rapt/viz/chart.h"

namespace rapt::cli {
namespace {

constexpr int64_t kShortestByDefault = 128, kLongestByDefault = 131'072;  // by default
constexpr int64_t kGreatestLength = int64_t{1} << 40;
constexpr double kScalingBudget = 60, kMostScalingBudget = 1e7;

std::vector<int64_t> rising_lengths(const std::string& text) {
  std::vector<int64_t> lengths;
  if (text.empty())
    for (int64_t n = kShortestByDefault; n <= kLongestByDefault; n *= 2) lengths.push_back(n);
  else
    lengths = parse_integers("--lengths", text);
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1 || lengths[i] > kGreatestLength)
      throw usage_error(fmt::format("--lengths: expected lengths from 1 to {}, got {}",
                                    kGreatestLength, lengths[i]));
    if (i > 0 && lengths[i] <= lengths[i - 1])
      throw usage_error(fmt::format("--lengths: expected rising lengths, got {} after {}",
                                    lengths[i], lengths[i - 1]));
  }
  return lengths;
}

double budget_of(const std::string& text) {
  if (text.empty()) return kScalingBudget;
  const double budget = parse_real("--budget", text);
  if (budget < 1 || budget > kMostScalingBudget)
    throw usage_error(
        fmt::format("--budget: expected 1 to {:.0f} seconds, got {}", kMostScalingBudget, text));
  return budget;
}

ProgressStyle progress_of(const std::string& text) {
  if (text.empty() || text == "auto") return ProgressStyle::terminal;
  if (text == "json") return ProgressStyle::json;
  if (text == "never") return ProgressStyle::none;
  throw usage_error("--progress: expected auto, json or never, got '" + text + "'");
}

int bracket_step(char c) { return (c == '(' || c == '[') - (c == ')' || c == ']'); }

// Refuses a value that would end early in a descriptor: ':' begins another field.
void check_field_value(const std::string& option, const std::string& value) {
  int depth = 0;
  for (const char c : value) {
    depth += bracket_step(c);
    if (depth < 0) throw usage_error(option + ": '" + value + "' closes a bracket too many");
    if (c == ':' && depth == 0)
      throw usage_error(option + ": expected no ':', got '" + value + "'",
                        "it is one field of a problem, and ':' would begin another");
  }
}

bool is_alternation(const std::string& mask) {
  int depth = 0;
  return std::ranges::any_of(mask, [&](char c) {
    depth += bracket_step(c);
    return c == '|' && depth == 0;
  });
}

// Descriptors have no blanks. One that separates two words or numbers stays, and is refused there.
std::string without_blanks(const std::string& text) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  };
  std::string kept;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t next = text.find_first_not_of(' ', i);
    const bool separates =
        !kept.empty() && next != std::string::npos && in_word(kept.back()) && in_word(text[next]);
    if (text[i] != ' ' || separates) kept += text[i];
  }
  return kept;
}

// '&' binds tighter than '|'. Only an alternation gets brackets: a product within brackets is one
// mask, which not every method accepts where it accepts its factors.
std::string mask_field(const std::vector<std::string>& masks) {
  std::string field;
  for (const std::string& mask : masks) {
    const bool brackets = masks.size() > 1 && is_alternation(mask);
    field += field.empty() ? ":mask=" : "&";
    field += brackets ? "(" + mask + ")" : mask;
  }
  return field;
}

ScalingCurve curve_of(const AlternativeSpec& spec, std::vector<std::string> masks,
                      const std::string& dtype) {
  check_field_value("--method " + spec.text, spec.value);
  ScalingCurve curve{spec.text, dtype, mask_field(masks)};
  switch (spec.changed) {
    case Changed::method:
      curve.fields += ":method=" + spec.value;
      break;
    case Changed::mask:
      masks.push_back(without_blanks(spec.value));
      curve.fields = mask_field(masks);
      break;
    case Changed::precision:
      curve.fields += ":precision=" + (spec.value == "auto" ? "automatic" : spec.value);
      break;
    case Changed::dtype:
      curve.dtype = spec.value;
      break;
    case Changed::normalizer:
      curve.fields += ":norm=" + spec.value;
      break;
  }
  return curve;
}

void check_dtype(const std::string& dtype) {
  const std::vector<std::string> known = float_words();
  if (std::ranges::find(known, dtype) == known.end())
    throw usage_error("--dtype: expected f32, bf16, f16 or f64, got '" + dtype + "'");
}

// Beside the curves, charts show what is computed.
void check_series(const ScalingArguments& a, size_t curves) {
  const size_t most = viz::kMaxSeries - (a.tutorial ? 3 : 1);
  if (!a.chart.targets.empty() && curves > most)
    throw usage_error(
        fmt::format("--output: expected at most {} --method, got {}", most - 1, curves - 1));
}

}  // namespace

BenchCase ScalingSettings::problem(const ScalingCurve& curve, int64_t n) const {
  return {parse_problem(
              fmt::format("h{}q{}k{}d{}:{}{}", heads, n, n, head_dim, curve.dtype, curve.fields)),
          threads};
}

int64_t ScalingSettings::query_heads() const {
  return parse_integer("--heads", heads.substr(0, heads.find('/')));
}

void add_scaling_options(CLI::App& app, ScalingArguments& a) {
  const auto text = [&](const char* name, std::string& value, const char* type, const char* group,
                        const std::string& doc) {
    return app.add_option(name, value, doc)->type_name(type)->group(group);
  };
  offer(app.add_option("WHAT", a.what, "scaling: time and memory of calls against their length")
            ->type_name(""),
        {"scaling"});
  add_alternatives_option(app, a.methods);
  offer(app.add_option("--mask", a.masks, "mask of all calls, as for rapt bench (repeatable)")
            ->type_name("SPEC")
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->group("Problems"),
        {"causal"});
  text("--lengths", a.lengths, "LIST", "Problems",
       "queries and keys, rising (default 128 to 131072, doubling)");
  text("--heads", a.heads, "N", "Problems", "heads, or heads/key heads: 8/2 (default 2)");
  text("--head-dim", a.head_dim, "N", "Problems", "numbers per query and key (default 64)");
  offer(text("--dtype", a.dtype, "NAME", "Problems", "f32 (default), bf16, f16, f64"),
        float_words());
  app.add_flag("--backward", a.backward, "time forward and backward call together")
      ->group("Problems");
  text("--threads", a.threads, "N", "Problems", "threads (default 1)");
  text("--budget", a.budget, "SECONDS", "Measurement",
       "time for all points; none is begun that would not fit (default 60)");
  text("--points", a.points, "F.jsonl", "Measurement",
       "keep each point as a line; points of this build, machine and problem that it has are not "
       "measured again");
  text("--memory-limit", a.memory_limit, "SIZE", "Measurement",
       "leave out what takes more, 512M or 8GiB (default: what is available)");
  offer(text("--progress", a.progress, "WHEN", "Measurement",
             "auto (default: on a terminal), json (docs/json.md), never"),
        {"auto", "json", "never"});
  add_chart_options(app, a.chart, "time and memory");
  app.add_flag("--tutorial", a.tutorial,
               "add the memory that tutorials tell, as a table and as a formula")
      ->group("Picture");
  app.add_flag("--json", a.json, "the numbers as JSON (docs/json.md)")->group("Output");
  app.add_flag("--force,-f", a.force, "overwrite existing files")->group("Output");
}

ScalingSettings scaling_settings(const ScalingArguments& a) {
  if (a.what.empty()) throw usage_error("expected what to plot: scaling");
  if (a.what != "scaling") {
    const std::string_view known[] = {"scaling"};
    throw usage_error("expected scaling, got '" + a.what + "'", did_you_mean(a.what, known));
  }
  if (a.methods.empty())
    throw usage_error("expected --method SPEC, which is plotted beside exact attention",
                      "for example --method favor --method mask=window(256,0)");
  check_chart_options(a.chart);
  ScalingSettings s;
  s.lengths = rising_lengths(a.lengths);
  s.heads = a.heads.empty() ? "2" : a.heads;
  s.head_dim = integer_within("--head-dim", a.head_dim, 64, 1, 1 << 20);
  s.threads = static_cast<int>(integer_within("--threads", a.threads, 1, 1, kMostThreads));
  s.passes = a.backward ? Passes::both : Passes::forward;
  s.budget = budget_of(a.budget);
  s.memory_limit = parse_memory_limit(a.memory_limit);
  s.progress = progress_of(a.progress);
  const std::string dtype = a.dtype.empty() ? "f32" : a.dtype;
  check_dtype(dtype);
  std::vector<std::string> masks;
  for (const std::string& mask : a.masks) {
    check_field_value("--mask", mask);
    masks.push_back(without_blanks(mask));
  }
  s.curves.push_back({"exact", dtype, mask_field(masks)});
  for (const AlternativeSpec& spec : alternative_specs(a.methods))
    s.curves.push_back(curve_of(spec, masks, dtype));
  check_series(a, s.curves.size());
  for (const ScalingCurve& curve : s.curves) s.problem(curve, s.lengths.front());
  for (const std::string& target : a.chart.targets)
    if (target == "-" && a.json)
      throw usage_error("--json and --output - both need standard output");
  return s;
}

}  // namespace rapt::cli

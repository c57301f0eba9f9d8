#include "cli/scaling/scaling_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/alternatives/alternative_spec.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/measure/described_problem.h"
#include "cli/process/failure.h"

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

std::string mask_field(const std::vector<std::string>& masks) {
  std::string field;
  for (const std::string& mask : masks) field += (field.empty() ? ":mask=" : "&") + mask;
  return field;
}

ScalingCurve curve_of(const AlternativeSpec& spec, const ScalingArguments& a,
                      const std::string& dtype) {
  ScalingCurve curve{spec.text, dtype, mask_field(a.masks)};
  std::vector<std::string> masks = a.masks;
  switch (spec.changed) {
    case Changed::method:
      curve.fields += ":method=" + spec.value;
      break;
    case Changed::mask:
      masks.push_back(spec.value);
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
  s.curves.push_back({"exact", dtype, mask_field(a.masks)});
  for (const AlternativeSpec& spec : alternative_specs(a.methods))
    s.curves.push_back(curve_of(spec, a, dtype));
  for (const ScalingCurve& curve : s.curves) s.problem(curve, s.lengths.front());
  for (const std::string& target : a.chart.targets)
    if (target == "-" && a.json)
      throw usage_error("--json and --output - both need standard output");
  return s;
}

}  // namespace rapt::cli

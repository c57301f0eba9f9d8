// What an option costs: the time of a call with it over that of the plain call, f32, no mask,
// d = 64, 2 heads, one thread; what a gap in a mask costs; and masks as data beside the same masks
// as formulas. Forward pass and backward pass, each
// alone.
//
//   bench_ratios [--filter TEXT] [--repetitions N] [--quick] [--json]
//
// Both are called in turn, each first every other time, so that whatever happens to the machine
// happens to both. The ratio is the median over the rounds of CPU time of the thread; milliseconds
// are each one's best.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.h"
#include "check/tensors/random.h"
#include "goals.h"
#include "rapt/catalogue.h"
#include "rapt/version.h"
#include "ratio/layout_cases.h"
#include "ratio/sparse_cases.h"
#include "timing/backward_problem.h"
#include "timing/problem.h"
#include "timing/sampling.h"

namespace {

using bench::Goal;

using bench::Call;
using bench::RatioCase;

// `text`: a descriptor (check/problem/descriptor.h).
std::function<Call()> forward(const std::string& text, const rapt::Rotary* rotary = nullptr) {
  return [text, rotary]() -> Call {
    const auto problem = std::make_shared<timing::Problem>(check::parse_descriptor(text),
                                                           timing::one_thread(), rotary);
    return [problem] { problem->call(); };
  };
}

std::function<Call()> backward(const std::string& text,
                               rapt::BackwardPasses passes = rapt::BackwardPasses::one,
                               const rapt::Rotary* rotary = nullptr) {
  return [text, passes, rotary]() -> Call {
    const auto problem = std::make_shared<timing::BackwardProblem>(
        check::parse_descriptor(text), passes, timing::one_thread(), rotary);
    return [problem] { problem->call(); };
  };
}

const rapt::Rotary kRotary;
constexpr Goal kRotaryGoal{1.05, 1.05};

constexpr int64_t kLongestBackward = 4096;  // n, as the bias below

struct Option {
  std::string name, fields;
  Goal goal;
  int64_t longest;  // n: drawing a matrix of 8,192 x 8,192 takes longer than measuring it
};

// `count` random rows of n.
std::string random_rows(int64_t n, size_t count) {
  check::Random random(1);
  check::Dims rows = random.permutation(n);
  rows.resize(count);
  return check::to_string(rows);
}

// Relative positions, each with the tables of its paper (rapt/relative.h).
constexpr const char* kShaw = ":relative=keys+values(129)";
constexpr const char* kDeberta = ":relative=keys+queries(512,log=128..512)";  // v3: 256 buckets
std::string transformer_xl(int64_t n) {
  return ":relative=keys+content+position(" + std::to_string(2 * n - 1) + ")";
}

// A mask, score or normaliser of the catalogue, with its usual arguments.
struct Variant {
  std::string name, fields;
  int64_t longest;
  Goal forward, backward;
};

// The goals that were set.
constexpr struct {
  std::string_view name;
  Goal forward, backward;
} kGoals[] = {{"softcap", {1.25, 1.25}, {1.15, 1.15}},
              {"head_scale", {1.10, 1.10}, {1.15, 1.15}},
              {"log_n", {1.10, 1.10}, {}},
              {"alibi", {1.10, 1.10}, {1.15, 1.15}},
              {"t5_bias", {1.10, 1.10}, {1.15, 1.15}},
              {"softmax_with_sink", {1.10, 1.10}, {1.15, 1.15}},
              {"sigmoid", {1.10, 1.10}, {}}};

Variant variant_of(const rapt::Declaration& declaration, const char* field, int64_t longest) {
  Variant variant{declaration.name, field + check::example_text(declaration), longest, {}, {}};
  for (const auto& goal : kGoals)
    if (goal.name == variant.name) variant.forward = goal.forward, variant.backward = goal.backward;
  return variant;
}

// All but softmax, with which they are compared, and sparse normalisers (sparse_cases.h).
std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const rapt::Declaration* mask : check::leaf_masks())
    all.push_back(variant_of(*mask, ":mask=", 4096));
  for (const rapt::Declaration* score : rapt::score_declarations())
    all.push_back(variant_of(*score, ":score=", 4096));
  for (const rapt::Declaration* normalizer : rapt::normalizer_declarations()) {
    const Variant variant = variant_of(*normalizer, ":norm=", 8192);
    const auto made = check::parse_descriptor("q1k1d1" + variant.fields).normalizer;
    if (made != check::Normalizer() && !check::is_sparse(made)) all.push_back(variant);
  }
  return all;
}

// The options of forward calls of n queries and keys.
std::vector<Option> forward_options(int64_t n) {
  std::vector<Option> options = {
      {"entropy", ":entropy", {1.10, 1.10}, 8192},
      {"top-16", ":top_k(16)", {1.35, 1.35}, 8192},
      {"16 rows of weights", ":weights(" + random_rows(n, 16) + ")", {1.05, 1.05}, 8192},
      {"attention received", ":received", {1.75, 1.75}, 8192},
      {"map 512 x 512", ":map(512,512)", {1.75, 1.75}, 8192},
      {"boolean mask, 7/8 true", ":mask=boolean(0.875)", {1.15, 1.15}, 4096},
      {"additive bias", ":bias", {1.20, 1.20}, 4096},
      {"Shaw, k = 64", kShaw, {2.2, 2.2}, 8192},
      {"Transformer-XL", transformer_xl(n), {2.2, 2.2}, 8192},
      {"DeBERTa", kDeberta, {}, 8192}};
  for (const Variant& v : variants()) options.push_back({v.name, v.fields, v.forward, v.longest});
  return options;
}

struct BackwardOption {
  std::string name, fields;
  rapt::BackwardPasses passes;
  Goal goal;
};

// The options of backward calls of n queries and keys.
std::vector<BackwardOption> backward_options(int64_t n) {
  std::vector<BackwardOption> options = {
      {"dropout 0.1", ":dropout=0.1", rapt::BackwardPasses::one, {1.35, 1.35}},
      {"bias with its gradient", ":bias", rapt::BackwardPasses::one, {1.5, 1.5}},
      {"two passes", "", rapt::BackwardPasses::two, {}},
      {"Shaw, k = 64", kShaw, rapt::BackwardPasses::one, {}},
      {"Transformer-XL", transformer_xl(n), rapt::BackwardPasses::one, {}},
      {"DeBERTa", kDeberta, rapt::BackwardPasses::one, {}},
  };
  for (const Variant& v : variants())
    options.push_back({v.name, v.fields, rapt::BackwardPasses::one, v.backward});
  return options;
}

std::vector<RatioCase> ratio_cases(std::initializer_list<int64_t> lengths) {
  std::vector<RatioCase> cases;
  for (const int64_t n : lengths) {
    const std::string length = std::to_string(n), plain = "h2q" + length + "k" + length + "d64";
    for (const Option& option : forward_options(n)) {
      if (n > option.longest) continue;
      cases.push_back({option.name + " n=" + length, forward(plain), forward(plain + option.fields),
                       bench::on_this_core(option.goal)});
    }
    cases.push_back({"rotary n=" + length, forward(plain), forward(plain, &kRotary),
                     bench::on_this_core(kRotaryGoal)});
    if (n > kLongestBackward) continue;
    for (const BackwardOption& option : backward_options(n))
      cases.push_back({"backward, " + option.name + " n=" + length, backward(plain),
                       backward(plain + option.fields, option.passes),
                       bench::on_this_core(option.goal)});
    cases.push_back({"backward, rotary n=" + length, backward(plain),
                     backward(plain, rapt::BackwardPasses::one, &kRotary),
                     bench::on_this_core({})});
  }
  return cases;
}

// Masks with a gap among the keys of a query, over the same without: keys in the gap should cost
// nothing.
std::vector<RatioCase> gap_cases(int64_t n) {
  std::vector<RatioCase> cases;
  const std::string length = std::to_string(n), problem = "q" + length + "k" + length + "d64";
  for (const char* const dtype : {"", ":bf16"})
    for (const char* const mask : {"window(255,0)", "documents(16)"}) {
      const std::string plain = problem + dtype + ":mask=" + mask, gap = plain + "|prefix(16)";
      const std::string name = std::string(mask) + "|prefix(16)" + dtype + " n=" + length;
      const double goal = bench::on_this_core({1.15, 1.15});
      cases.push_back({name, forward(plain), forward(gap), goal});
      cases.push_back({"backward, " + name, backward(plain), backward(gap), goal});
    }
  return cases;
}

struct Measured {
  double milliseconds, plain_milliseconds, ratio;
};

Measured measure(const RatioCase& c, int repetitions) {
  const Call call_plain = c.plain(), call_with = c.with();
  double best_plain = std::numeric_limits<double>::infinity(), best_with = best_plain;
  std::vector<double> ratios;
  call_plain(), call_with();  // pages, caches and the clock
  timing::repeat(repetitions, [&] {
    const bool plain_first = ratios.size() % 2 == 0;
    double seconds_plain = 0;
    if (plain_first) seconds_plain = timing::seconds_per_call(1, call_plain);
    const double seconds_with = timing::seconds_per_call(1, call_with);
    if (!plain_first) seconds_plain = timing::seconds_per_call(1, call_plain);
    best_plain = std::min(best_plain, seconds_plain);
    best_with = std::min(best_with, seconds_with);
    ratios.push_back(seconds_with / seconds_plain);
  });
  return {best_with * 1e3, best_plain * 1e3, timing::median(ratios)};
}

bool measure_all(const bench::Arguments& arguments) {
  if (!arguments.json)
    std::printf("rapt %s\n%-32s %9s %9s %6s %6s\n", rapt::build_info(), "case", "ms", "plain",
                "ratio", "goal");
  bool any = false;
  auto cases = arguments.quick ? ratio_cases({512}) : ratio_cases({2048, 4096, 8192});
  for (RatioCase& c : gap_cases(arguments.quick ? 1024 : 16384)) cases.push_back(std::move(c));
  for (RatioCase& c : bench::layout_cases(arguments.quick ? 1024 : 16384))
    cases.push_back(std::move(c));
  for (RatioCase& c :
       arguments.quick ? bench::sparse_cases({512}) : bench::sparse_cases({4096, 16384}))
    cases.push_back(std::move(c));
  for (const RatioCase& c : cases) {
    if (!arguments.wants(c.name)) continue;
    any = true;
    const Measured m = measure(c, arguments.repetitions);
    if (arguments.json)
      std::printf(
          "{\"table\": \"ratios\", \"name\": \"%s\", \"ms\": %.4f, \"plain_ms\": %.4f, "
          "\"ratio\": %.4f, \"goal\": %g}\n",
          c.name.c_str(), m.milliseconds, m.plain_milliseconds, m.ratio, c.goal);
    else
      std::printf("%-32s %9.3f %9.3f %6.3f %6g  %s\n", c.name.c_str(), m.milliseconds,
                  m.plain_milliseconds, m.ratio, c.goal,
                  c.goal == 0         ? "-"
                  : m.ratio <= c.goal ? "met"
                                      : "beyond");
    std::fflush(stdout);
  }
  return any;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmark(
      argc, argv, "usage: bench_ratios [--filter TEXT] [--repetitions N] [--quick] [--json]\n",
      measure_all);
}

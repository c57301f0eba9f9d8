// What one call of a problem as small as a tutorial's takes: f32, 4 queries, 4 keys, d = 8, one
// thread.
//
//   bench_small_calls [--filter TEXT] [--repetitions N] [--quick] [--json]
//
// Nanoseconds of CPU time per call, in rows of 1,000 calls; the best of 50 N rows.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "arguments.h"
#include "goals.h"
#include "rapt/rapt.h"
#include "rapt/rapt_c.h"
#include "timing/backward_problem.h"
#include "timing/sampling.h"

namespace {

constexpr int64_t kLength = 4, kDim = 8;
constexpr int kCalls = 1000, kRows = 50;
constexpr bench::Goal kGoal{300, 300}, kGoalInC{350, 350}, kNone{};

rapt::Tensor random_normal(std::mt19937& generator) {
  rapt::Tensor t(rapt::DType::f32, {kLength, kDim});
  std::normal_distribution<float> normal;
  for (float& x : t.values<float>()) x = normal(generator);
  return t;
}

void expect_ok(rapt_status status) {
  if (status != RAPT_OK) throw rapt::Error(rapt::ErrorCode::argument, rapt_last_error());
}

// [kLength, kDim] in C.
struct CTensor {
  int64_t shape[2] = {kLength, kDim};
  rapt_tensor tensor = {};

  explicit CTensor(void* data) {
    tensor.size = sizeof tensor;
    tensor.data = data;
    tensor.dtype = RAPT_F32;
    tensor.rank = 2;
    tensor.shape = shape;
  }
  CTensor(const CTensor&) = delete;
};

struct Small {
  std::mt19937 generator{1};
  rapt::Tensor query = random_normal(generator), key = random_normal(generator),
               value = random_normal(generator), output = random_normal(generator);
  rapt::TensorView query_view = query, key_view = key,
                   value_view = value;  // made once, as in an engine
  rapt::Context context;
  rapt::AttentionOptions options;
  rapt::AttentionOutputs outputs;
  std::vector<std::byte> workspace;

  CTensor c_query{query.data()}, c_key{key.data()}, c_value{value.data()}, c_output{output.data()};
  rapt_context c_context = {};
  rapt_results c_results = {};
  std::unique_ptr<rapt_prepared, void (*)(rapt_prepared*)> prepared{nullptr, rapt_prepared_destroy};

  Small() {
    context.threads = 1;
    outputs.state.output = output;
    workspace.resize(rapt::workspace_bytes(query, key, value, options, context));
    c_context.size = sizeof c_context;
    c_context.threads = 1;
    c_results.size = sizeof c_results;
    c_results.output = &c_output.tensor;
    rapt_prepared* made = nullptr;
    expect_ok(rapt_prepare(nullptr, &c_context, &made));
    prepared.reset(made);
  }
  Small(const Small&) = delete;

  void call() {
    rapt::scaled_dot_product_attention(query_view, key_view, value_view, options, outputs,
                                       workspace, context);
  }
  void call_that_allocates() {
    rapt::scaled_dot_product_attention(query, key, value, options, context);
  }
  void call_in_c() {
    expect_ok(rapt_attention_forward(&c_query.tensor, &c_key.tensor, &c_value.tensor, nullptr,
                                     &c_results, workspace.data(), workspace.size(), &c_context));
  }
  void call_prepared_in_c() {
    expect_ok(rapt_prepared_forward(prepared.get(), &c_query.tensor, &c_key.tensor, &c_value.tensor,
                                    &c_results, workspace.data(), workspace.size()));
  }
};

struct CallCase {
  const char* name;
  std::function<void()> call;
  double goal;  // nanoseconds, at most; 0: none was set
};

bool measure_all(const bench::Arguments& arguments) {
  Small small;
  timing::BackwardProblem backward(check::parse_descriptor("q4k4d8"));
  const CallCase cases[] = {
      {"C++, caller's buffers", [&] { small.call(); }, bench::on_this_core(kGoal)},
      {"C++, allocating", [&] { small.call_that_allocates(); }, bench::on_this_core(kNone)},
      {"C, caller's buffers", [&] { small.call_in_c(); }, bench::on_this_core(kGoalInC)},
      {"C++, backward pass", [&] { backward.call(); }, bench::on_this_core(kNone)},
      {"C, prepared", [&] { small.call_prepared_in_c(); }, bench::on_this_core(kGoalInC)}};
  if (!arguments.json)
    std::printf("rapt %s\n%-24s %8s %6s\n", rapt::build_info(), "n = 4, d = 8", "ns", "goal");
  bool any = false;
  for (const CallCase& c : cases) {
    if (!arguments.wants(c.name)) continue;
    any = true;
    double best = std::numeric_limits<double>::infinity();
    timing::seconds_per_call(kCalls, c.call);  // caches and the clock
    // kCalls calls take half a millisecond; among this many repetitions, some are not disturbed.
    timing::repeat(kRows * arguments.repetitions,
                   [&] { best = std::min(best, 1e9 * timing::seconds_per_call(kCalls, c.call)); });
    if (arguments.json)
      std::printf("{\"table\": \"small calls\", \"name\": \"%s\", \"ns\": %.1f, \"goal\": %g}\n",
                  c.name, best, c.goal);
    else
      std::printf("%-24s %8.1f %6g  %s\n", c.name, best, c.goal,
                  c.goal == 0      ? "-"
                  : best <= c.goal ? "met"
                                   : "beyond");
  }
  return any;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmark(
      argc, argv, "usage: bench_small_calls [--filter TEXT] [--repetitions N] [--quick] [--json]\n",
      measure_all);
}

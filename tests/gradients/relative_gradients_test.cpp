// Gradients of tables for relative positions: against differences of the forward pass, and what
// holds whatever they are.
#include <gtest/gtest.h>

#include <cmath>

#include "gradients/valid_gradient_call.h"
#include "rapt/mask/causal.h"
#include "rapt/tangents.h"
#include "support/differences.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;

// All inputs of a case that have gradients, and where these are returned.
std::vector<std::pair<Tensor*, Tensor rapt::Gradients::*>> moved_of(check::Case& c) {
  std::vector<std::pair<Tensor*, Tensor rapt::Gradients::*>> moved = {
      {&c.query, &rapt::Gradients::d_query},
      {&c.key, &rapt::Gradients::d_key},
      {&c.value, &rapt::Gradients::d_value}};
  const auto tables = std::span(kGradientTensors).last<RelativeSpec::kParts>();
  size_t next = 0;
  for (size_t part = 0; part < RelativeSpec::kParts; ++part)
    if (c.descriptor.relative.tables[part].there)
      moved.emplace_back(&c.relative_tables[next++], tables[part].tensor);
  return moved;
}

// In f64 a central difference is off by h^2 of a third derivative, here about 10, and by the
// roundings of the loss, a sum of some hundred terms, over h.
TEST(RelativeGradients, are_those_of_finite_differences) {
  constexpr double kStep = 1e-5, kAllowed = 10 * kStep * kStep * 10 + 100 * 0x1p-52 / kStep * 10;
  for (const char* line :
       {"h2q5k7d3:f64:relative=keys+values(5):seed=1",
        "b2h4/2q4k6d3v2:f64:mask=causal(bottom-right):relative=keys[]+values[2,1](3):seed=2",
        "h2q4k6d3:f64:relative=keys+content[]+position(6,center=5,bottom-right):seed=3",
        "h2q6k5d4:f64:relative=keys+queries(6,center=2,log=2..12):score=softcap(2):seed=4",
        "h3q5k5d2v3:f64:dropout=0.3,7:relative=keys+queries+values+content+position(4):seed=5",
        "h2q7k9d2:f64:packed=3:relative=keys+queries+values+content+position[1](5):seed=6",
        "h2q4k5d3:f64:bias:norm=sigmoid(0):relative=values+content(3):seed=7"}) {
    SCOPED_TRACE(line);
    check::Case c(parse_descriptor(line));
    const GradientCase g(c);
    const auto loss = [&] {
      const AttentionResult result =
          scaled_dot_product_attention(c.query, c.key, c.value, c.options);
      return loss_of(result.output, g.d_output);
    };
    AttentionResult forward = scaled_dot_product_attention(c.query, c.key, c.value, c.options);
    BackwardInputs inputs;
    inputs.state = forward.state();
    inputs.d_output = g.d_output;
    const rapt::Gradients got = scaled_dot_product_attention_backward(
        c.query, c.key, c.value, c.options, inputs, g.request());
    for (const auto& [tensor, gradient] : moved_of(c)) {
      ASSERT_TRUE((got.*gradient).defined());
      expect_differences("element", *tensor, got.*gradient, loss, kStep, kAllowed);
    }
  }
}

// Lengths of several units, chunks and segments, against the reference.
TEST(RelativeGradients, agree_over_many_blocks) {
  for (const char* line :
       {"h2q300k411d8:relative=keys+values(33):mask=causal:seed=1",
        "h4/2q211k190d16v5:bf16:relative=keys[]+queries+values[1](17,center=3):seed=2",
        "q700k650d8:relative=keys+content+position(650,center=649,bottom-right):seed=3",
        "h2q600k130d4:f16:backward=f32:relative=keys+queries(64,log=8..128):seed=4",
        "h2q520k540d6:f64:packed=4:dropout=0.1,3:relative=keys+queries+values+content+position(9):"
        "seed=5",
        "q1100k90d4:relative=values(1):seed=6"}) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    const GradientCase g(c);
    const check::Comparison comparison = compare(g, check::run_backward(g));
    EXPECT_TRUE(comparison.ok()) << comparison.failures();
  }
}

// One thread, which keeps how many tasks a run has had at most.
class Counting final : public rapt::Executor {
 public:
  int concurrency() const noexcept override { return 8; }
  void run(int64_t tasks, Task task, void* argument) override {
    most = std::max(most, tasks);
    for (int64_t t = 0; t < tasks; ++t) task(argument, t, static_cast<int>(t % 8));
  }
  int64_t most = 0;
};

// Sequences add to the same tables, one after the other; heads that have their own tables still run
// in parallel.
TEST(RelativeGradients, of_packed_sequences_keep_workers_busy) {
  for (const auto& [line, tasks] :
       {std::pair("h32q300k300d16:packed=9:relative=keys+queries+values(17):seed=1", 8),
        std::pair("h2q3000k3000d16:packed=2:relative=keys+values(17):seed=2", 2),
        std::pair("h4/2q900k900d16:packed=5:relative=keys[1]+values(17):seed=3", 1)}) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    const GradientCase g(c);
    Forward f(c);
    Counting counting;
    Context context;
    context.executor = &counting;
    Context one;
    one.threads = 1;
    EXPECT_TRUE(same_gradients(backward(f, g, context), backward(f, g, one)));
    EXPECT_GE(counting.most, tasks);
  }
}

// Rows that no allowed pair reads have gradients of exactly 0, and may be NaN.
TEST(RelativeGradients, of_rows_that_nobody_reads) {
  for (const char* dtype : {"f32", "bf16"}) {
    const std::string line = std::string("h2q140k140d8:") + dtype +
                             ":mask=causal:relative=keys+queries+values(9,center=4):seed=3";
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    const GradientCase g(c);
    Forward clean(c);
    const rapt::Gradients expected = backward(clean, g);
    AttentionOptions options = clean.options;
    std::vector<Tensor> spoilt;
    rapt::RelativePositions& r = options.relative;
    for (TensorView* table : {&r.key_rows, &r.query_rows, &r.value_rows}) {
      spoilt.push_back(
          mapped(*table, [](double x, auto i) { return i[1] > 4 ? std::nan("") : x; }));
      *table = spoilt.back();
    }
    AttentionResult forward =
        scaled_dot_product_attention(clean.in.query, clean.in.key, clean.in.value, options);
    const rapt::Gradients got =
        scaled_dot_product_attention_backward(clean.in.query, clean.in.key, clean.in.value, options,
                                              g.inputs(forward.state()), g.request());
    EXPECT_TRUE(same_gradients(got, expected));
    for (const Tensor* d : {&got.d_key_rows, &got.d_query_rows, &got.d_value_rows})
      for_each_index(d->dims(), [&](auto i) { EXPECT_TRUE(i[1] <= 4 || get(*d, i) == 0); });
  }
}

// A call with tables that fit, which a test spoils.
struct Call : ValidGradientCall {
  Tensor rows = filled(DType::f32, {4, 9, 8}, 0.5), value_rows = filled(DType::f32, {9, 3}, 1),
         bias = filled(DType::f32, {8}, 1);
  Call() {
    rapt::RelativePositions& r = options.relative;
    r.key_rows = r.query_rows = rows, r.value_rows = value_rows;
    r.content_bias = r.position_bias = bias;
    attend();
    request.relative = true;
    memory.d_key_rows = filled(DType::f32, {4, 9, 8}, 77);
    memory.d_query_rows = filled(DType::f32, {4, 9, 8}, 77);
    memory.d_value_rows = filled(DType::f32, {9, 3}, 77);
    memory.d_content_bias = filled(DType::f32, {8}, 77);
    memory.d_position_bias = filled(DType::f32, {8}, 77);
    outputs = outputs_of(memory);
  }
};

void expect_refused(const char* what, ErrorCode code, const std::vector<std::string>& fragments,
                    const std::function<void(Call&)>& spoil) {
  SCOPED_TRACE(what);
  Call call;
  spoil(call);
  expect_error(code, fragments, [&] { call.run(); });
  EXPECT_TRUE(call.untouched()) << "written in spite of the error";
}

TEST(BadRelativeGradients, TheUnspoiltCallWorks) {
  Call call;
  EXPECT_NO_THROW(call.run());
}

TEST(BadRelativeGradients, AreRefused) {
  expect_refused("of no tables", ErrorCode::argument, {"relative"},
                 [](Call& c) { c.options.relative = {}; });
  expect_refused("in two passes", ErrorCode::unsupported, {"relative", "pass"},
                 [](Call& c) { c.request.passes = BackwardPasses::two; });
  expect_refused("a table that is not there", ErrorCode::argument, {"d_query_rows"},
                 [](Call& c) { c.options.relative.query_rows = {}; });
  expect_refused("not wanted", ErrorCode::argument, {"d_key_rows"},
                 [](Call& c) { c.request.relative = false; });
  for (const auto& [name, tensor, member] : std::span(kGradientTensors).last<5>()) {
    const auto output = member;
    expect_refused("missing", ErrorCode::argument, {name},
                   [&](Call& c) { c.outputs.*output = {}; });
    expect_refused("dtype", ErrorCode::dtype, {name},
                   [&](Call& c) { (c.outputs.*output).dtype = DType::f64; });
    expect_refused("shape", ErrorCode::shape, {name},
                   [&](Call& c) { ++(c.outputs.*output).shape[0]; });
    expect_refused("null", ErrorCode::argument, {name},
                   [&](Call& c) { (c.outputs.*output).data = nullptr; });
    expect_refused("read-only", ErrorCode::argument, {name},
                   [&](Call& c) { (c.outputs.*output).read_only = true; });
    expect_refused("over a table", ErrorCode::overlap, {name},
                   [&](Call& c) { (c.outputs.*output).data = c.rows.data(); });
    expect_refused("over another", ErrorCode::overlap, {name},
                   [&](Call& c) { (c.outputs.*output).data = c.memory.d_query.data(); });
  }
}

TEST(BadRelativeGradients, Tangents) {
  Call call;
  rapt::InputTangents tangents;
  tangents.query = call.q;
  expect_error(ErrorCode::unsupported, {"relative"}, [&] {
    (void)rapt::attention_jvp(call.query, call.key, call.value, call.options, call.inputs.state,
                              tangents);
  });
}

}  // namespace
}  // namespace laws

// Bad input to the backward pass: both calls throw one Error with the right code that names what
// was expected and what came, and touch no byte of a gradient or the workspace. A call with the
// caller's memory allocates nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gradients/valid_gradient_call.h"
#include "memory/allocation_hooks.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;

// A valid call, one part of which a test makes invalid.
struct Call : ValidGradientCall {
  Tensor d_lse = filled(DType::f32, {2, 4, 5}, 1), d_w = filled(DType::f32, {2, 4, 5, 7}, 1);
  rapt::Softcap softcap{5};

  Call() {
    options.bias = b;
    options.scores = {softcap};
    options.weights.emplace();
    attend();
    inputs.d_statistic = d_lse;
    inputs.d_weights = d_w;
    request.bias = request.scale = request.score_parameters = true;
    memory.d_bias = filled(DType::f32, {5, 7}, 77);
    memory.d_scale = filled(DType::f64, {}, 77);
    memory.d_score_parameters = filled(DType::f64, {1}, 77);
    outputs = outputs_of(memory);
  }
  void run_simply() const {
    scaled_dot_product_attention_backward(query, key, value, options, inputs, request, context);
  }
};

enum class Verbs : uint8_t { both, with_buffers };  // which calls must refuse

void expect_refused(const char* what, ErrorCode code, const std::vector<std::string>& fragments,
                    const std::function<void(Call&)>& spoil, Verbs verbs = Verbs::both) {
  SCOPED_TRACE(what);
  Call call;
  spoil(call);
  const auto refused = [&](const char* verb, const std::function<void()>& run) {
    SCOPED_TRACE(verb);
    expect_error(code, fragments, run);
  };
  refused("with buffers", [&] { call.run(); });
  EXPECT_TRUE(call.untouched()) << "written in spite of the error";
  if (verbs == Verbs::both) refused("simple", [&] { call.run_simply(); });
}
void expect_buffers_refused(const char* what, ErrorCode code,
                            const std::vector<std::string>& fragments,
                            const std::function<void(Call&)>& spoil) {
  expect_refused(what, code, fragments, spoil, Verbs::with_buffers);
}

TEST(BadGradientInput, TheUnspoiltCallWorks) {
  Call call;
  EXPECT_NO_THROW(call.run());
  EXPECT_FALSE(call.untouched());
  EXPECT_NO_THROW(call.run_simply());
}

TEST(BadGradientInput, Dropout) {
  for (const double bad : {-0.1, 1.0, 1.5, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    expect_refused("dropout", ErrorCode::argument, {"dropout"},
                   [&](Call& c) { c.options.dropout.probability = bad; });
    Call call;
    call.options.dropout.probability = bad;
    EXPECT_THROW(scaled_dot_product_attention(call.query, call.key, call.value, call.options),
                 rapt::Error);
    EXPECT_THROW((void)rapt::backward_workspace_bytes(call.query, call.key, call.value,
                                                      call.options, call.request),
                 rapt::Error);
  }
}

TEST(BadGradientInput, WhatIsMissing) {
  const auto argument = ErrorCode::argument;
  expect_refused("output", argument, {"output", "missing"},
                 [](Call& c) { c.inputs.state.output = {}; });
  expect_refused("lse", argument, {"statistic", "missing"},
                 [](Call& c) { c.inputs.state.statistic = {}; });
  expect_refused("d_output", argument, {"d_output", "missing"},
                 [](Call& c) { c.inputs.d_output = {}; });
  expect_refused("d_weights of no weights", argument, {"d_weights", "options.weights"},
                 [](Call& c) { c.options.weights.reset(); });
  expect_refused("gradient of no bias", argument, {"bias"}, [](Call& c) { c.options.bias = {}; });
  expect_refused("gradient of no scores", argument, {"score"},
                 [](Call& c) { c.options.scores = {}; });
  expect_refused("null output", argument, {"output", "null"},
                 [](Call& c) { c.inputs.state.output.data = nullptr; });
  expect_refused("null lse", argument, {"statistic", "null"},
                 [](Call& c) { c.inputs.state.statistic.data = nullptr; });
  expect_refused("null d_output", argument, {"d_output", "null"},
                 [](Call& c) { c.inputs.d_output.data = nullptr; });
  expect_refused("null query", argument, {"query", "null"},
                 [](Call& c) { c.query.data = nullptr; });
  for (TensorView GradientOutputs::*gradient :
       {&GradientOutputs::d_query, &GradientOutputs::d_key, &GradientOutputs::d_value,
        &GradientOutputs::d_bias, &GradientOutputs::d_scale, &GradientOutputs::d_score_parameters})
    expect_buffers_refused("wanted, not given", argument, {"d_"},
                           [&](Call& c) { c.outputs.*gradient = {}; });
}

TEST(BadGradientInput, WhatIsNotWanted) {
  for (bool BackwardRequest::*wanted :
       {&BackwardRequest::query, &BackwardRequest::key, &BackwardRequest::value,
        &BackwardRequest::bias, &BackwardRequest::scale, &BackwardRequest::score_parameters})
    expect_buffers_refused("given, not wanted", ErrorCode::argument, {"d_"},
                           [&](Call& c) { c.request.*wanted = false; });
}

TEST(BadGradientInput, StateOfAnotherProblem) {
  const Tensor fewer = filled(DType::f32, {2, 4, 4, 3}, 1),
               wide = filled(DType::f64, {2, 4, 5, 3}, 1),
               half = filled(DType::bf16, {2, 4, 5, 3}, 1), lse = filled(DType::f32, {2, 4, 4}, 1),
               wide_lse = filled(DType::f64, {2, 4, 5}, 1), flat = filled(DType::f32, {8, 5, 3}, 1),
               weights = filled(DType::f32, {2, 4, 4, 7}, 1),
               wide_weights = filled(DType::f64, {2, 4, 5, 7}, 1);
  const auto refused = [](const char* name, TensorView BackwardInputs::*input, const Tensor& bad,
                          ErrorCode code, const char* expected) {
    expect_refused(name, code, {name, expected}, [&](Call& c) { c.inputs.*input = bad; });
  };
  refused("d_output", &BackwardInputs::d_output, fewer, ErrorCode::shape, "[2, 4, 5, 3]");
  refused("d_output", &BackwardInputs::d_output, flat, ErrorCode::shape, "[2, 4, 5, 3]");
  refused("d_output", &BackwardInputs::d_output, wide, ErrorCode::dtype, "f32");
  refused("d_output", &BackwardInputs::d_output, half, ErrorCode::dtype, "f32");
  refused("d_statistic", &BackwardInputs::d_statistic, lse, ErrorCode::shape, "[2, 4, 5]");
  refused("d_statistic", &BackwardInputs::d_statistic, wide_lse, ErrorCode::dtype, "f32");
  refused("d_weights", &BackwardInputs::d_weights, weights, ErrorCode::shape, "[2, 4, 5, 7]");
  refused("d_weights", &BackwardInputs::d_weights, wide_weights, ErrorCode::dtype, "f32");
  expect_refused("output", ErrorCode::shape, {"output", "[2, 4, 5, 3]"},
                 [&](Call& c) { c.inputs.state.output = fewer; });
  expect_refused("output", ErrorCode::dtype, {"output", "f32"},
                 [&](Call& c) { c.inputs.state.output = half; });
  expect_refused("lse", ErrorCode::shape, {"statistic", "[2, 4, 5]"},
                 [&](Call& c) { c.inputs.state.statistic = lse; });
  expect_refused("lse", ErrorCode::dtype, {"statistic", "f32"},
                 [&](Call& c) { c.inputs.state.statistic = wide_lse; });
  expect_refused("misaligned d_output", ErrorCode::argument, {"d_output", "aligned"}, [](Call& c) {
    c.inputs.d_output.data = static_cast<char*>(c.inputs.d_output.data) + 1;
  });
  for (const int rank : {rapt::kMaxRank + 1, 1000}) {
    expect_refused("rank of d_output", ErrorCode::shape, {},
                   [&](Call& c) { c.inputs.d_output.rank = rank; });
    expect_refused("rank of the output", ErrorCode::shape, {},
                   [&](Call& c) { c.inputs.state.output.rank = rank; });
    expect_buffers_refused("rank of d_key", ErrorCode::shape, {},
                           [&](Call& c) { c.outputs.d_key.rank = rank; });
  }
}

TEST(BadGradientInput, GradientsOfAnotherProblem) {
  const Tensor six = filled(DType::f32, {2, 2, 6, 8}, 1),
               wide = filled(DType::f64, {2, 2, 7, 8}, 1),
               repeated = filled(DType::f32, {2, 4, 7, 8}, 1), one = filled(DType::f64, {1}, 0),
               two = filled(DType::f64, {2}, 0), bias = filled(DType::f32, {2, 4, 5, 7}, 0),
               narrow = filled(DType::f32, {1}, 0);
  const auto refused = [](const char* name, TensorView GradientOutputs::*gradient,
                          const Tensor& bad, ErrorCode code) {
    expect_buffers_refused(name, code, {name}, [&](Call& c) {
      c.outputs.*gradient = bad;
      (c.outputs.*gradient).read_only = false;
    });
  };
  refused("d_key", &GradientOutputs::d_key, six, ErrorCode::shape);
  refused("d_key", &GradientOutputs::d_key, repeated, ErrorCode::shape);
  refused("d_key", &GradientOutputs::d_key, wide, ErrorCode::dtype);
  refused("d_query", &GradientOutputs::d_query, six, ErrorCode::shape);
  refused("d_value", &GradientOutputs::d_value, six, ErrorCode::shape);
  refused("d_bias", &GradientOutputs::d_bias, bias, ErrorCode::shape);
  refused("d_scale", &GradientOutputs::d_scale, one, ErrorCode::shape);
  refused("d_score_parameters", &GradientOutputs::d_score_parameters, two, ErrorCode::shape);
  refused("d_score_parameters", &GradientOutputs::d_score_parameters, narrow, ErrorCode::dtype);
  for (TensorView GradientOutputs::*gradient :
       {&GradientOutputs::d_query, &GradientOutputs::d_key, &GradientOutputs::d_value,
        &GradientOutputs::d_bias, &GradientOutputs::d_scale,
        &GradientOutputs::d_score_parameters}) {
    expect_buffers_refused("read-only", ErrorCode::argument, {"d_", "read-only"},
                           [&](Call& c) { (c.outputs.*gradient).read_only = true; });
    expect_buffers_refused("null", ErrorCode::argument, {"d_", "null"},
                           [&](Call& c) { (c.outputs.*gradient).data = nullptr; });
    expect_buffers_refused("misaligned", ErrorCode::argument, {"d_", "aligned"}, [&](Call& c) {
      (c.outputs.*gradient).data = static_cast<char*>((c.outputs.*gradient).data) + 1;
    });
  }
}

TEST(BadGradientInput, Request) {
  expect_refused("passes", ErrorCode::argument, {"passes"},
                 [](Call& c) { c.request.passes = static_cast<BackwardPasses>(7); });
  for (const DType bad : {DType::f64, DType::bf16, DType::f16, DType::i64, DType::boolean})
    expect_refused("dtype", ErrorCode::dtype, {rapt::name_of(bad), "f32"},
                   [&](Call& c) { c.request.dtype = bad; });
  Call call;
  call.request.passes = static_cast<BackwardPasses>(7);
  EXPECT_THROW((void)rapt::backward_workspace_bytes(call.query, call.key, call.value, call.options,
                                                    call.request),
               rapt::Error);
}

TEST(BadGradientInput, Workspace) {
  expect_buffers_refused("none", ErrorCode::argument, {"workspace", "0"},
                         [](Call& c) { c.workspace = {}; });
  expect_buffers_refused("a byte too few", ErrorCode::argument, {"workspace"}, [](Call& c) {
    const size_t bytes =
        rapt::backward_workspace_bytes(c.query, c.key, c.value, c.options, c.request);
    ASSERT_GT(bytes, 0u);
    c.workspace = c.workspace.first(bytes - 1);
  });
}

TEST(BadGradientInput, GradientsThatAliasWhatIsRead) {
  const auto refused = [](const char* what, const std::vector<std::string>& fragments,
                          const std::function<void(Call&)>& spoil) {
    expect_buffers_refused(what, ErrorCode::overlap, fragments, spoil);
  };
  refused("query", {"d_query", "query"}, [](Call& c) { c.outputs.d_query.data = c.query.data; });
  refused("key", {"d_key", "key"}, [](Call& c) { c.outputs.d_key.data = c.key.data; });
  refused("value", {"d_value", "value"}, [](Call& c) { c.outputs.d_value.data = c.value.data; });
  refused("bias", {"d_bias", "bias"}, [](Call& c) { c.outputs.d_bias.data = c.options.bias.data; });
  refused("one element in common", {"d_value", "value"}, [](Call& c) {
    c.value.data = static_cast<float*>(c.outputs.d_value.data) + 2 * 2 * 7 * 3 - 1;
    static float room[2 * 2 * 7 * 3 * 2];
    c.value.data = room;
    c.outputs.d_value.data = room + 2 * 2 * 7 * 3 - 1;
  });
  refused("state.output", {"d_bias", "output"},
          [](Call& c) { c.outputs.d_bias.data = c.inputs.state.output.data; });
  refused("state.statistic", {"d_bias", "statistic"},
          [](Call& c) { c.outputs.d_bias.data = c.inputs.state.statistic.data; });
  refused("d_output", {"d_bias", "d_output"},
          [](Call& c) { c.outputs.d_bias.data = c.inputs.d_output.data; });
  refused("d_statistic", {"d_bias", "d_statistic"},
          [](Call& c) { c.outputs.d_bias.data = c.inputs.d_statistic.data; });
  refused("d_weights", {"d_bias", "d_weights"},
          [](Call& c) { c.outputs.d_bias.data = c.inputs.d_weights.data; });
}

// Gradients of query, key and value may be columns of one matrix, as long as none shares a column.
TEST(BadGradientInput, GradientsOfOneMatrix) {
  const int64_t heads = 2, n = 7, d = 3;
  Random random(base_seed());
  const auto draw = [&] { return random_normal(random, DType::f32, {heads, n, d}); };
  const Tensor query = draw(), key = draw(), value = draw(), d_output = draw();
  rapt::AttentionResult forward = rapt::scaled_dot_product_attention(query, key, value);
  const rapt::BackwardInputs inputs{.state = forward.state(), .d_output = d_output};
  const rapt::Gradients expected =
      rapt::scaled_dot_product_attention_backward(query, key, value, {}, inputs);
  const size_t bytes = rapt::backward_workspace_bytes(query, key, value, {}, {});
  std::vector<std::byte> workspace(bytes);
  const auto gradients = [&](int64_t key_column) {
    Tensor all(DType::f32, {n, 3 * heads * d});  // a row: query, key, value, head by head
    const auto columns = [&](int64_t first) {
      TensorView view = all.view().slice(1, first, first + heads * d);
      view.rank = 3;
      view.shape[0] = heads, view.shape[1] = n, view.shape[2] = d;
      view.strides[0] = d, view.strides[1] = 3 * heads * d, view.strides[2] = 1;
      return view;
    };
    const rapt::GradientOutputs outputs{
        .d_query = columns(0), .d_key = columns(key_column), .d_value = columns(2 * heads * d)};
    rapt::scaled_dot_product_attention_backward(query, key, value, {}, inputs, {}, outputs,
                                                workspace, {});
    EXPECT_TRUE(same_bits(outputs.d_query, expected.d_query));
    EXPECT_TRUE(same_bits(outputs.d_key, expected.d_key));
    EXPECT_TRUE(same_bits(outputs.d_value, expected.d_value));
  };
  gradients(heads * d);
  expect_error(ErrorCode::overlap, {"d_key", "d_query"}, [&] { gradients(heads * d - 1); });
  expect_error(ErrorCode::overlap, {"d_value", "d_key"}, [&] { gradients(heads * d + 1); });
}

TEST(BadGradientInput, GradientsThatAliasEachOther) {
  const auto refused = [](const char* what, const std::vector<std::string>& fragments,
                          const std::function<void(Call&)>& spoil) {
    expect_buffers_refused(what, ErrorCode::overlap, fragments, spoil);
  };
  refused("d_key over d_query", {"d_query", "d_key"},
          [](Call& c) { c.outputs.d_key.data = c.outputs.d_query.data; });
  refused("d_scale in d_score_parameters", {"d_scale", "d_score_parameters"},
          [](Call& c) { c.outputs.d_scale.data = c.outputs.d_score_parameters.data; });
  refused("workspace in d_query", {"d_query", "workspace"}, [](Call& c) {
    c.workspace = {static_cast<std::byte*>(c.outputs.d_query.data) + 100, 8};
  });
  refused("itself", {"d_key"}, [](Call& c) { c.outputs.d_key.strides[0] = 0; });
  refused("itself, rows", {"d_query"}, [](Call& c) { c.outputs.d_query.strides[2] = 2; });
  refused("workspace in the state", {"workspace", "output"}, [](Call& c) {
    c.workspace = {static_cast<std::byte*>(c.inputs.state.output.data), 8};
  });
}

// The backward pass rejects what the forward pass rejects.
TEST(BadGradientInput, ProblemsThatAreNone) {
  const Tensor other_dim = filled(DType::f32, {2, 2, 7, 9}, 1),
               three = filled(DType::f32, {2, 3, 7, 8}, 1);
  expect_refused("head_dim", ErrorCode::shape, {"8", "9"}, [&](Call& c) { c.key = other_dim; });
  expect_refused("heads", ErrorCode::shape, {"3", "4"}, [&](Call& c) { c.key = three; });
  expect_refused("scale", ErrorCode::argument, {"scale"},
                 [](Call& c) { c.options.scale = HUGE_VAL; });
  expect_refused("null mask", ErrorCode::argument, {"mask"},
                 [](Call& c) { c.options.masks = {nullptr}; });
  expect_refused("cap", ErrorCode::argument, {"cap"}, [](Call& c) { c.softcap.cap = -1; });
}

TEST(BadGradientInput, MemoryLimit) {
  Call call;
  call.context.memory_limit = 100;
  expect_error(ErrorCode::memory_limit, {}, [&] { call.run_simply(); });
  EXPECT_NO_THROW(call.run()) << "the caller's own memory is not the call's to limit";
}

TEST(BadGradientInput, Cancelled) {
  Call call;
  rapt::CancelToken token;
  token.cancel();
  call.context.cancel = &token;
  expect_error(ErrorCode::cancelled, {}, [&] { call.run(); });
}

TEST(GradientAllocation, NothingWithTheCallersMemory) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  const auto any = [](Descriptor&) { return true; };
  for_gradient_problems(200, any, [](const Case& c, const GradientCase& g, Random& random) {
    Forward f(c);
    rapt::Gradients got = spoilt_like(backward(f, g));
    const GradientOutputs outputs = outputs_of(got);
    const BackwardInputs inputs = g.inputs(f.result.state());
    const BackwardRequest request = g.request();
    Reversed reversed;
    Context context;
    if (random.chance(0.5)) context.executor = &reversed;
    std::vector<std::byte> workspace(rapt::backward_workspace_bytes(
        f.in.query, f.in.key, f.in.value, f.options, request, context));
    start_counting();
    scaled_dot_product_attention_backward(f.in.query, f.in.key, f.in.value, f.options, inputs,
                                          request, outputs, workspace, context);
    EXPECT_EQ(stop_counting().made, 0);
  });
}

// Two passes need no workspace that grows with the lengths except one number per query. One pass
// needs 3 q_len head_dim numbers per head at work.
TEST(GradientAllocation, WorkspaceIsBounded) {
  const auto bytes = [](int64_t n, BackwardPasses passes) {
    const Dims dims{n, 64}, strides{0, 1};
    static float row[64] = {};
    const TensorView x(row, DType::f32, dims, strides, true);
    BackwardRequest request;
    request.passes = passes;
    Context context;
    context.threads = 1;
    return static_cast<double>(rapt::backward_workspace_bytes(x, x, x, {}, request, context));
  };
  constexpr int64_t kLong = 65536;
  EXPECT_LE(bytes(kLong, BackwardPasses::two), 4.0 * kLong + 16.0 * (1 << 20));
  EXPECT_LE(bytes(kLong, BackwardPasses::one), 3.0 * kLong * 64 * 4 + 64.0 * (1 << 20));
}

}  // namespace
}  // namespace laws

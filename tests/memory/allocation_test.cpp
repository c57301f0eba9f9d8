// Allocations of a call: none with the caller's memory; no leak when an allocation fails; and the
// memory limit.
#include <gtest/gtest.h>

#include <new>

#include "memory/allocation_hooks.h"
#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/method/lsh.h"
#include "support/call.h"
#include "support/executors.h"

namespace laws {
namespace {

struct Buffers {
  AttentionResult result;
  rapt::AttentionState state;
  std::vector<std::byte> workspace;
};

Buffers buffers_for(const Case& c, const AttentionOptions& options, const Context& context) {
  Buffers b;
  b.result = scaled_dot_product_attention(c.query, c.key, c.value, options);
  b.state.output = b.result.output;
  b.state.statistic = b.result.statistic;
  b.workspace.resize(rapt::plan(c.query, c.key, c.value, options, context).workspace_bytes);
  return b;
}

TEST(Allocation, NothingWithTheCallersMemory) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  Wanted wanted;
  wanted.rows = true;
  for_problems(150, wanted, [](const Case& c, Random& random) {
    Reversed reversed;
    Context context;
    if (random.chance(0.5)) context.executor = &reversed;
    AttentionOptions options = c.options;
    if (random.chance(0.5)) options.weights.emplace();
    Buffers b = buffers_for(c, options, context);
    const TensorView weights = options.weights ? b.result.weights.view() : TensorView{};
    start_counting();
    scaled_dot_product_attention(c.query, c.key, c.value, options, {b.state, weights}, b.workspace,
                                 context);
    EXPECT_EQ(stop_counting().made, 0);
  });
}

TEST(Allocation, NothingWithRelativePositions) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  for (const char* line :
       {"h2q70k150d8:relative=keys+values(17)",
        "h4/2q70k150d8:bf16:mask=causal:relative=keys[]+queries+values[1](9,center=2,log=2..12)",
        "h2q30k33d16:packed=3:relative=keys+content[]+position(33,center=32,bottom-right)"}) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    Reversed reversed;
    Context context;
    context.executor = &reversed;
    Buffers b = buffers_for(c, c.options, context);
    start_counting();
    scaled_dot_product_attention(c.query, c.key, c.value, c.options, {b.state}, b.workspace,
                                 context);
    EXPECT_EQ(stop_counting().made, 0);
  }
}

TEST(Allocation, NothingWithAMethod) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  for (const char* line :
       {"h2q70k150d8:bf16:mask=causal:method=mean", "b2h4/2q9k9d8:mask=lengths:method=mean",
        "h2q70k150d8:bf16:mask=causal:method=lsh(2,16,keys=separate)",
        "h2q150k150d8:bf16:mask=causal:method=favor(40,hyperbolic,exponent=-0.05)",
        "h2q70k150d8:method=linear(taylor)"}) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    Reversed reversed;
    Context context;
    context.executor = &reversed;
    Buffers b = buffers_for(c, c.options, context);
    start_counting();
    scaled_dot_product_attention(c.query, c.key, c.value, c.options, {b.state}, b.workspace,
                                 context);
    EXPECT_EQ(stop_counting().made, 0);
  }
}

// Shared keys have no descriptor.
TEST(Allocation, NothingWithSharedKeysOfLsh) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  const Tensor rows = filled(DType::f32, {2, 300, 8}, 1);
  for (const rapt::LshCut cut : {rapt::LshCut::row, rapt::LshCut::bucket}) {
    rapt::Lsh lsh(2);
    lsh.chunk = 16, lsh.cut = cut;
    AttentionOptions options;
    options.method = &lsh;
    Reversed reversed;
    Context context;
    context.executor = &reversed;
    AttentionResult result = scaled_dot_product_attention(rows, rows, rows, options);
    rapt::AttentionState state;
    state.output = result.output, state.statistic = result.statistic;
    std::vector<std::byte> workspace(
        rapt::plan(rows, rows, rows, options, context).workspace_bytes);
    start_counting();
    scaled_dot_product_attention(rows, rows, rows, options, {state}, workspace, context);
    EXPECT_EQ(stop_counting().made, 0);

    rapt::BackwardRequest request;
    request.key = false;
    rapt::BackwardInputs inputs;
    inputs.state = state, inputs.d_output = rows;
    Tensor d_query = filled(DType::f32, {2, 300, 8}, 0),
           d_value = filled(DType::f32, {2, 300, 8}, 0);
    workspace.resize(rapt::backward_workspace_bytes(rows, rows, rows, options, request, context));
    start_counting();
    scaled_dot_product_attention_backward(rows, rows, rows, options, inputs, request,
                                          {.d_query = d_query, .d_value = d_value}, workspace,
                                          context);
    EXPECT_EQ(stop_counting().made, 0);
  }
}

// Checks that the hooks count allocations; otherwise the test above proves nothing.
TEST(Allocation, TheSimpleCallIsSeen) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  const Tensor x = filled(DType::f32, {20, 8}, 1);
  start_counting();
  const AttentionResult got = scaled_dot_product_attention(x, x, x);
  EXPECT_GE(stop_counting().made, 2);  // at least output and lse
}

// Every allocation fails once: std::bad_alloc, nothing leaks, and the next call works.
TEST(Allocation, EachFailureIsSurvived) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  for_problems(20, {}, [](const Case& c, Random&) {
    AttentionOptions options = c.options;
    options.weights.emplace();
    const AttentionResult expected = scaled_dot_product_attention(c.query, c.key, c.value, options);
    int64_t failures = 0;
    for (bool succeeded = false; !succeeded; ++failures) {
      ASSERT_LT(failures, 1000);
      bool refused = false;
      start_counting(failures);
      try {
        const AttentionResult got = scaled_dot_product_attention(c.query, c.key, c.value, options);
        succeeded = stop_counting().made <= failures;
        EXPECT_TRUE(succeeded) << "allocation " << failures << " failed without a word";
        EXPECT_TRUE(same_results(got, expected));
      } catch (const std::bad_alloc&) {
        refused = true;
      }
      // Counted here, where the exception itself has been freed.
      if (refused) {
        EXPECT_EQ(stop_counting().live, 0) << "after allocation " << failures;
      }
    }
    if (c.query.count() > 0) {  // outputs without elements take none
      EXPECT_GE(failures, 3);
    }
  });
}

// A limit equal to the bytes of plan() suffices; one byte less is rejected with an error that names
// it.
TEST(Allocation, MemoryLimit) {
  for_problems(40, {}, [](const Case& c, Random& random) {
    AttentionOptions options = c.options;
    if (random.chance(0.5)) options.weights.emplace();
    const rapt::Plan plan = rapt::plan(c.query, c.key, c.value, options);
    const auto needed = static_cast<int64_t>(plan.workspace_bytes + plan.result_bytes);
    Context context;
    context.memory_limit = needed;
    EXPECT_NO_THROW(scaled_dot_product_attention(c.query, c.key, c.value, options, context));
    if (needed == 0) return;
    context.memory_limit = needed - 1;
    try {
      scaled_dot_product_attention(c.query, c.key, c.value, options, context);
      ADD_FAILURE() << "took more than " << needed - 1 << " bytes";
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), rapt::ErrorCode::memory_limit);
      EXPECT_NE(std::string(error.what()).find(std::to_string(needed)), std::string::npos)
          << error.what();
    }
    // The caller's own memory is not the call's to limit.
    context.memory_limit = 0;
    Buffers b = buffers_for(c, options, context);
    const TensorView weights = options.weights ? b.result.weights.view() : TensorView{};
    EXPECT_NO_THROW(scaled_dot_product_attention(c.query, c.key, c.value, options,
                                                 {b.state, weights}, b.workspace, context));
  });
}

// With little memory, the workspace is bounded by tiles and head sizes, not by the lengths.
TEST(Allocation, WorkspaceDoesNotGrowWithLength) {
  Context low;
  low.memory = rapt::Memory::low;
  const auto bytes = [&](int64_t n, const Context& context) {
    const Dims dims{n, 64}, strides{0, 1};
    static float row[64] = {};
    const TensorView x(row, DType::f32, dims, strides, true);
    const rapt::Causal causal;
    const rapt::Mask* masks[] = {&causal};
    AttentionOptions options;
    options.masks = masks;
    return rapt::workspace_bytes(x, x, x, options, context);
  };
  EXPECT_EQ(bytes(65536, low), bytes(1 << 20, low));
  EXPECT_LE(bytes(2048, low), bytes(65536, low));
  EXPECT_LT(bytes(65536, low), size_t{4} << 20);
  // Where tile registers multiply, it has keys and values once more: three numbers of two bytes.
  for (const int64_t n : {65536, 1 << 20})
    EXPECT_LE(bytes(n, {}), bytes(n, low) + static_cast<size_t>(n) * 2 * (64 * 6 + 1));
}

}  // namespace
}  // namespace laws

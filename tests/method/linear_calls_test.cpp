// Calls of favor and linear beside their results: gradients alone, masks together, the state over
// threads, progress and cancellation. None of it depends on the instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "linear_inputs.h"
#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/method/favor.h"
#include "rapt/method/linear.h"
#include "support/executors.h"

namespace laws {
namespace {

struct BothMethods {
  rapt::Favor favor;
  rapt::Linear linear;
  BothMethods() { favor.features = 40; }
  std::vector<const rapt::Method*> all() const { return {&favor, &linear}; }
};

TEST(LinearCalls, AGradientAloneHasTheBitsOfAll) {
  const LinearInputs in(2);
  const BothMethods methods;
  const rapt::Causal causal;
  for (const rapt::Method* method : methods.all()) {
    const AttentionOptions options{.masks = {&causal}, .method = method};
    AttentionResult forward = scaled_dot_product_attention(in.query, in.key, in.value, options);
    rapt::BackwardInputs inputs;
    inputs.state = forward.state(), inputs.d_output = forward.output;
    const auto gradients = [&](bool query, bool key, bool value) {
      rapt::BackwardRequest request;
      request.query = query, request.key = key, request.value = value;
      return scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs,
                                                   request);
    };
    const rapt::Gradients all = gradients(true, true, true);
    EXPECT_TRUE(same_bits(gradients(true, false, false).d_query, all.d_query));
    EXPECT_TRUE(same_bits(gradients(false, true, false).d_key, all.d_key));
    EXPECT_TRUE(same_bits(gradients(false, false, true).d_value, all.d_value));
  }
}

// Queries behind the length attend to all keys within it.
TEST(LinearCalls, CausalWithLengths) {
  const LinearInputs in(1);
  const BothMethods methods;
  const rapt::Causal causal;
  const int64_t length = 70;
  const rapt::Lengths lengths(TensorView(&length, {1}));
  for (const rapt::Method* method : methods.all()) {
    const AttentionResult all = scaled_dot_product_attention(
        in.query, in.key, in.value, {.masks = {&causal, &lengths}, .method = method});
    const auto part = [](const Tensor& t, int64_t first, int64_t end) {
      return t.view().slice(1, first, end);
    };
    const AttentionResult within =
        scaled_dot_product_attention(part(in.query, 0, 70), part(in.key, 0, 70),
                                     part(in.value, 0, 70), {.masks = {&causal}, .method = method});
    const AttentionResult behind =
        scaled_dot_product_attention(part(in.query, 70, kTokens), part(in.key, 0, 70),
                                     part(in.value, 0, 70), {.method = method});
    EXPECT_TRUE(same_bits(Tensor::copy_of(part(all.output, 0, 70)), within.output));
    // Queries of the chunk in which the sequence ends sum it as one of their own, not as a state.
    EXPECT_TRUE(same_bits(Tensor::copy_of(part(all.output, 128, kTokens)),
                          Tensor::copy_of(part(behind.output, 58, kTokens - 70))));
  }
}

// A million tokens take no more memory than some thousand: at most 8 MiB a thread. Gradients keep
// some numbers per query.
TEST(LinearCalls, MemoryDoesNotGrowWithTheTokens) {
  constexpr size_t kMiB = size_t{1} << 20;
  const rapt::Favor favor;  // 256 features
  const rapt::Linear linear;
  const rapt::Causal causal;
  const auto bytes = [&](const rapt::Method* method, int64_t tokens, int threads, bool backward) {
    const int64_t shape[] = {1, tokens, 64};
    const TensorView rows(nullptr, DType::f32, shape, true);
    const AttentionOptions options{.masks = {&causal}, .method = method};
    Context context;
    context.threads = threads;
    return backward ? rapt::backward_workspace_bytes(rows, rows, rows, options, {}, context)
                    : rapt::plan(rows, rows, rows, options, context).workspace_bytes;
  };
  for (const rapt::Method* method :
       {static_cast<const rapt::Method*>(&favor), static_cast<const rapt::Method*>(&linear)}) {
    for (const int threads : {1, 2}) {
      EXPECT_EQ(bytes(method, 1 << 20, threads, false), bytes(method, 1 << 16, threads, false));
      EXPECT_LE(bytes(method, 1 << 20, threads, false), 8 * kMiB * static_cast<size_t>(threads));
    }
    EXPECT_LE(bytes(method, 1 << 16, 1, true), 48 * kMiB);
  }
}

TEST(LinearCalls, ThreadsChangeNoBitOfAState) {
  const LinearInputs in(1);
  BothMethods methods;
  for (const bool is_favor : {true, false}) {
    const auto state_of = [&](int threads) {
      Tensor state(DType::f32, {1, is_favor ? 41 : 9, 6});
      (is_favor ? methods.favor.final_state : methods.linear.final_state) = state.view();
      Threads executor(threads);
      Context context;
      context.executor = &executor;
      (void)scaled_dot_product_attention(in.query, in.key, in.value,
                                         {.method = methods.all()[is_favor ? 0 : 1]}, context);
      return state;
    };
    EXPECT_TRUE(same_bits(state_of(3), state_of(1)));
  }
}

// The last report is 1, however many threads share a head and whatever gradients are wanted.
TEST(LinearCalls, ProgressEndsAtOne) {
  const BothMethods methods;
  const rapt::Causal causal;
  for (const int64_t heads : {1, 5})
    for (const bool is_causal : {false, true})
      for (const rapt::Method* method : methods.all()) {
        const LinearInputs in(heads);
        AttentionOptions options{.method = method};
        if (is_causal) options.masks = {&causal};
        Threads executor(16);
        double last = 0;
        Context context;
        context.executor = &executor;
        context.progress = {[](void* user, double fraction) {
                              EXPECT_GE(fraction, *static_cast<double*>(user));
                              *static_cast<double*>(user) = fraction;
                            },
                            &last};
        AttentionResult forward =
            scaled_dot_product_attention(in.query, in.key, in.value, options, context);
        EXPECT_EQ(last, 1);
        rapt::BackwardInputs inputs;
        inputs.state = forward.state(), inputs.d_output = forward.output;
        for (const bool keys : {true, false}) {
          rapt::BackwardRequest request;
          request.key = request.value = keys;
          last = 0;
          (void)scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs,
                                                      request, context);
          EXPECT_EQ(last, 1) << keys;
        }
      }
}

TEST(LinearCalls, ACancelledCallStops) {
  const LinearInputs in(1);
  const BothMethods methods;
  for (const rapt::Method* method : methods.all()) {
    rapt::CancelToken token;
    Threads executor(3);
    Context context;
    context.executor = &executor, context.cancel = &token;
    context.progress = {[](void* user, double) { static_cast<rapt::CancelToken*>(user)->cancel(); },
                        &token};
    try {
      (void)scaled_dot_product_attention(in.query, in.key, in.value, {.method = method}, context);
      ADD_FAILURE() << "finished";
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), rapt::ErrorCode::cancelled);
    }
  }
}

}  // namespace
}  // namespace laws

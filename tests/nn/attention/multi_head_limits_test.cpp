// Multi-head attention: the same bits for any threads, memory, allocations, errors.
#include <gtest/gtest.h>

#include <cstring>

#include "memory/allocation_hooks.h"
#include "nn/attention/multi_head_problem.h"
#include "rapt/mask/causal.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

// All results of a backward call, byte after byte.
std::vector<std::byte> results_of(MultiHeadProblem& problem) {
  problem.run_backward();
  std::vector<std::byte> bytes;
  const auto append = [&](const TensorView& view) {
    const auto* const begin = static_cast<const std::byte*>(view.data);
    bytes.insert(bytes.end(), begin, begin + view.count() * size_of(view.dtype));
  };
  append(problem.y), append(problem.d_x);
  if (problem.d_key_value.defined()) append(problem.d_key_value);
  for (nn::Parameter* p : nn::parameters_of(problem.layer)) append(p->gradient);
  return bytes;
}

TEST(MultiHeadLimits, TheBitsAreTheSameForAnyThreads) {
  const nn::MultiHeadAttentionSpec specs[] = {
      {.dropout = 0.2, .mask = "causal"},
      {.num_kv_heads = 2,
       .add_bias_kv = true,
       .mask = "window(20,3)",
       .scores = {"head_scale(learned)", "alibi(slopes=learned)"},
       .normalizer = "softmax_with_sink(learned)"},
      {.normalizer = "entmax(alphas=learned)",
       .relative = "relative(key_rows=learned[33], value_rows=shared[33])"}};
  check::Random random(3);
  for (const nn::MultiHeadAttentionSpec& spec : specs)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      MultiHeadSizes sizes{.leading = {2}, .length = 150, .embed_dim = 96, .num_heads = 4};
      if (spec.add_bias_kv) sizes.k_len = 90;
      MultiHeadProblem problem(sizes, spec, dtype, 4);
      problem.training = true;
      problem.context.threads = 1;
      const std::vector<std::byte> expected = results_of(problem);
      for (const int threads : {2, 3, 5, 8, 16}) {
        problem.context.threads = threads;
        EXPECT_TRUE(results_of(problem) == expected) << threads;
      }
      laws::for_each_executor(random, [&](const Context& context) {
        problem.context = context;
        EXPECT_TRUE(results_of(problem) == expected);
      });
      problem.context = {};
      problem.context.memory = Memory::low;
      EXPECT_TRUE(results_of(problem) == expected) << "low memory";
    }
}

// A sequence has the same outputs alone and in a batch.
TEST(MultiHeadLimits, ARowsBitsAreItsOwn) {
  MultiHeadProblem both({.leading = {3}, .length = 40, .embed_dim = 24, .num_heads = 3},
                        {.mask = "causal"}, DType::f32, 5);
  MultiHeadProblem alone({.leading = {1}, .length = 40, .embed_dim = 24, .num_heads = 3},
                         {.mask = "causal"}, DType::f32, 5);
  both.run_forward();
  std::memcpy(alone.x.data(), both.x.values<float>().data() + 2 * 40 * 24, 40 * 24 * 4);
  alone.run_forward();
  EXPECT_EQ(std::memcmp(alone.y.data(), both.y.values<float>().data() + 2 * 40 * 24, 40 * 24 * 4),
            0);
}

struct Bytes {
  size_t state, forward, backward;
};

// The bytes that a layer of width `embed_dim` needs for one sequence, from a counting call.
Bytes bytes_at(int64_t length, int64_t embed_dim, int64_t heads, Memory memory) {
  nn::MultiHeadAttention layer =
      nn::make_multi_head_attention(embed_dim, heads, {.mask = "causal"});
  const Context context{.threads = 1, .memory = memory};
  nn::Arena states, scratch, more;
  const int64_t shape[] = {1, length, embed_dim};
  const auto state = make_state(layer, shape, states);
  const TensorView x(nullptr, DType::f32, shape, false);
  forward(layer, x, x, state, {.scratch = scratch, .context = context});
  backward(layer, x, x, state, x, {.scratch = more, .context = context});
  return {states.bytes(), scratch.bytes(), more.bytes()};
}

TEST(MultiHeadLimits, MemoryGrowsWithTheLengthOnly) {
  constexpr size_t kMiB = size_t{1} << 20;
  const int64_t n = 16384;
  const Bytes wide = bytes_at(n, 768, 12, Memory::automatic);
  EXPECT_LE(wide.state, (4 * n * 768 + 12 * n) * 4 + 4096);
  EXPECT_LE(wide.forward, 64 * kMiB);
  EXPECT_LE(bytes_at(n, 256, 4, Memory::automatic).backward, 80 * kMiB);
  EXPECT_LE(bytes_at(n, 256, 4, Memory::low).backward, 64 * kMiB);
  const Bytes half = bytes_at(n / 2, 768, 12, Memory::automatic);
  EXPECT_LE(wide.backward, 2 * half.backward + kMiB);
}

TEST(MultiHeadLimits, CallsWithMemoryAllocateNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  const nn::MultiHeadAttentionSpec specs[] = {
      {},
      {.add_bias_kv = true, .mask = "causal & !prefix(1)"},
      {.num_kv_heads = 1,
       .dropout = 0.5,
       .scores = {"head_scale(learned)", "softcap(4)"},
       .normalizer = "softmax_with_sink(learned)",
       .rotary = "rotary"},
      {.normalizer = "entmax15", .relative = "relative(key_rows=learned[9])"}};
  for (const nn::MultiHeadAttentionSpec& spec : specs)
    for (const int64_t k_len : {0, 7})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        MultiHeadProblem problem({.leading = {2}, .length = 12, .k_len = k_len, .embed_dim = 16},
                                 spec, dtype, 6);
        problem.training = true;
        problem.context.threads = 1;
        problem.run_backward();
        problem.in_memory([&](nn::Arena& states, const nn::Run& run) {
          laws::start_counting();
          const auto state = problem.state(states);
          forward(problem.layer, problem.x, problem.y, state, run, problem.call);
          backward(problem.layer, problem.x, problem.d_y, state, problem.d_x, run, false,
                   problem.call, problem.gradients);
          const laws::Allocations allocations = laws::stop_counting();
          if (!run.counts()) {
            EXPECT_EQ(allocations.made, 0);
          }
        });
      }
}

TEST(MultiHeadLimits, SpecsThatDoNotFit) {
  const auto refused = [](ErrorCode code, const std::vector<std::string>& words, int64_t embed_dim,
                          int64_t heads, const nn::MultiHeadAttentionSpec& spec) {
    expect_error(code, words, [&] { nn::make_multi_head_attention(embed_dim, heads, spec); });
  };
  const ErrorCode argument = ErrorCode::argument;
  refused(argument, {"embed_dim 10", "num_heads 4"}, 10, 4, {});
  refused(argument, {"num_heads 4", "num_kv_heads 3"}, 8, 4, {.num_kv_heads = 3});
  refused(argument, {"embed_dim is 0"}, 0, 1, {});
  refused(argument, {"num_heads is -2"}, 4, -2, {});
  refused(argument, {"kdim is -1"}, 4, 2, {.kdim = -1});
  refused(argument, {"dropout is 1"}, 4, 2, {.dropout = 1});
  refused(argument, {"add_zero_attn"}, 4, 2, {.add_zero_attn = true, .scores = {"softcap(3)"}});
  refused(ErrorCode::unknown_name, {"casual", "causal"}, 4, 2, {.mask = "casual"});
  refused(ErrorCode::unknown_name, {"head_scales"}, 4, 2, {.scores = {"head_scales(learned)"}});
  refused(argument, {"scales is missing"}, 4, 2, {.scores = {"head_scale"}});
  refused(argument, {"no length"}, 4, 2, {.scores = {"head_scale(learned[3])"}});
  refused(argument, {"learned[32]"}, 4, 2, {.scores = {"t5_bias(learned)"}});
  refused(argument, {"in the brackets"}, 4, 2, {.scores = {"t5_bias(learned[x])"}});
  refused(argument, {"no tensor \"slopes.npy\""}, 4, 2, {.scores = {"alibi(slopes=slopes.npy)"}});
}

// Expects that a call is rejected and writes neither y nor d_x.
void expect_rejected(ErrorCode code, const std::vector<std::string>& words,
                     MultiHeadProblem& problem, const std::function<void()>& call) {
  const Tensor y = Tensor::copy_of(problem.y.view()), d_x = Tensor::copy_of(problem.d_x.view());
  expect_error(code, words, call);
  EXPECT_EQ(std::memcmp(y.data(), problem.y.data(), static_cast<size_t>(y.count()) * 4), 0);
  EXPECT_EQ(std::memcmp(d_x.data(), problem.d_x.data(), static_cast<size_t>(y.count()) * 4), 0);
}

TEST(MultiHeadLimits, CallsThatDoNotFit) {
  MultiHeadProblem self({.leading = {2}, .length = 3, .embed_dim = 4}, {}, DType::f32, 1);
  MultiHeadProblem cross({.leading = {2}, .length = 3, .k_len = 5, .embed_dim = 4}, {}, DType::f32,
                         1);
  nn::Arena states;
  self.state(states), cross.state(states), self.state(states);
  std::vector<std::byte> memory(states.bytes()), scratch_memory(size_t{1} << 22);
  nn::Arena kept(memory), scratch(scratch_memory);
  const auto of_self = self.state(kept), of_cross = cross.state(kept);
  const Context context{.threads = 1};
  const nn::Run run{.scratch = scratch, .context = context};
  const auto forward_of = [&](MultiHeadProblem& problem, const TensorView& x, const TensorView& y,
                              const nn::MultiHeadAttention::State& state,
                              const nn::MultiHeadCall& call) {
    return [&run, &problem, x, y, state, call] { forward(problem.layer, x, y, state, run, call); };
  };
  Tensor wide(DType::f32, {2, 3, 5}), half(DType::bf16, {2, 3, 4}), longer(DType::f32, {2, 4, 4});
  Tensor other_batch(DType::f32, {3, 5, 4});
  const auto shape = ErrorCode::shape, argument = ErrorCode::argument;
  expect_rejected(shape, {"x [2, 3, 5]"}, self, forward_of(self, wide, self.y, of_self, {}));
  expect_rejected(ErrorCode::dtype, {"x is bf16"}, self,
                  forward_of(self, half, self.y, of_self, {}));
  expect_rejected(argument, {"x is missing"}, self, forward_of(self, {}, self.y, of_self, {}));
  expect_rejected(argument, {"y is missing"}, self, forward_of(self, self.x, {}, of_self, {}));
  expect_rejected(shape, {"y [2, 4, 4]"}, self, forward_of(self, self.x, longer, of_self, {}));
  expect_rejected(ErrorCode::overlap, {"y overlaps x"}, self,
                  forward_of(self, self.x, self.x, of_self, {}));
  expect_rejected(shape, {"key_value [3, 5, 4]"}, cross,
                  forward_of(cross, cross.x, cross.y, of_cross, {.key_value = other_batch.view()}));
  expect_rejected(argument, {"value without key_value"}, cross,
                  forward_of(cross, cross.x, cross.y, of_self, {.value = other_batch.view()}));
  // States of other calls.
  expect_rejected(shape, {"state.projections"}, self,
                  forward_of(self, self.x, self.y, of_cross, {}));
  expect_rejected(shape, {"state.projections"}, cross,
                  forward_of(cross, cross.x, cross.y, of_self, cross.call));
  const auto backward_of = [&](MultiHeadProblem& problem, const TensorView& d_y,
                               const nn::MultiHeadAttention::State& state,
                               const nn::MultiHeadCall& call,
                               const nn::MultiHeadGradients& gradients) {
    return [&run, &problem, d_y, state, call, gradients] {
      backward(problem.layer, problem.x, d_y, state, problem.d_x, run, false, call, gradients);
    };
  };
  expect_rejected(shape, {"state.projections"}, self,
                  backward_of(self, self.d_y, of_cross, {}, {}));
  expect_rejected(shape, {"d_y [2, 4, 4]"}, self, backward_of(self, longer, of_self, {}, {}));
  expect_rejected(ErrorCode::overlap, {"d_x overlaps d_y"}, self,
                  backward_of(self, self.d_x, of_self, {}, {}));
  expect_rejected(argument, {"d_value", "leave it out"}, self,
                  backward_of(self, self.d_y, of_self, {}, {.value = longer.view()}));
  expect_rejected(argument, {"a bias"}, self,
                  backward_of(self, self.d_y, of_self, {}, {.bias = longer.view()}));
}

TEST(MultiHeadLimits, OptionsThatDoNotFit) {
  const auto refused = [](ErrorCode code, const std::vector<std::string>& words,
                          const nn::MultiHeadAttentionSpec& spec, const auto& change) {
    MultiHeadProblem problem({.leading = {2}, .length = 3, .embed_dim = 4}, spec, DType::f32, 1);
    change(problem);
    expect_rejected(code, words, problem, [&] { problem.run_forward(); });
  };
  const auto argument = ErrorCode::argument;
  refused(argument, {"output_dtype"}, {},
          [](auto& p) { p.call.options.output_dtype = DType::f32; });
  refused(argument, {"dropout_stream"}, {}, [](auto& p) { p.layer.options.dropout = {0.5, 1}; });
  refused(argument, {"captures"}, {}, [](auto& p) { p.layer.options.entropy = true; });
  refused(argument, {"entropy wanted"}, {}, [](auto& p) { p.call.options.entropy = true; });
  static const int64_t starts[] = {0, 3};
  refused(ErrorCode::unsupported, {"bias_k"}, {.add_bias_kv = true},
          [](auto& p) { p.call.options.packed.query_starts = TensorView(starts, {2}); });
  static const float slopes[] = {1, 2, 3};
  static const HeadScale scale(TensorView(slopes, {3}));
  refused(ErrorCode::shape, {"scales [3]"}, {}, [](auto& p) { p.call.options.scores = {scale}; });
  refused(argument, {"part of the learned tensor"}, {.scores = {"head_scale(learned)"}},
          [](auto& p) {
            static HeadScale part;
            part.scales = p.layer.learned[0].parameter.value.view().slice(0, 0, 1);
            p.call.options.scores = {part};
          });
}

}  // namespace

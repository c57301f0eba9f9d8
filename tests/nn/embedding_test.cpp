#include "rapt/nn/embedding.h"

#include <gtest/gtest.h>

#include "memory/allocation_hooks.h"
#include "nn/elements.h"
#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

struct EmbeddingProblem {
  EmbeddingProblem(int64_t count, int64_t features, Tensor t, DType dtype = DType::f64)
      : layer(nn::make_embedding(count, features, dtype)), tokens(std::move(t)) {
    draw_parameters(layer, 1);
    std::vector<int64_t> shape(tokens.dims().begin(), tokens.dims().end());
    shape.push_back(features);
    y = normal(dtype, shape, 2), d_y = normal(dtype, shape, 3);
  }
  void operator()(const Context& context = {}, bool add = false) {
    Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
      forward(layer, tokens, y, run, add);
      backward(layer, tokens, d_y, run);
    });
  }
  nn::Embedding layer;
  Tensor tokens, y, d_y;
};

TEST(Embedding, GradientsAreCentralDifferences) {
  const struct {
    int64_t count, features;
    std::vector<int64_t> shape;
  } cases[] = {{5, 3, {2, 7}}, {1, 1, {1}}, {40, 17, {3}}, {3, 9, {700}}, {4, 5, {0}}, {6, 2, {}}};
  for (const auto& [count, features, shape] : cases) {
    EmbeddingProblem p(count, features, drawn_tokens(shape, count, 4));
    p();
    std::vector<Checked> checked;
    add_parameters(p.layer, checked);
    expect_gradients(checked, [&] {
      Counted()([&](nn::Arena&, const nn::Run& run) { forward(p.layer, p.tokens, p.y, run); });
      return dot(p.y, p.d_y);
    });
  }
}

TEST(Embedding, RowsAreCopiedOrAdded) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    EmbeddingProblem p(9, 21, drawn_tokens({4, 6}, 9, 5), dtype);
    const std::vector<double> before = values_of(p.y), weight = values_of(p.layer.weight.value);
    for (const bool add : {true, false}) {
      p({}, add);
      const std::vector<double> y = values_of(p.y);
      for (size_t i = 0; i < y.size(); ++i) {
        const double row =
            weight[static_cast<size_t>(p.tokens.values<int64_t>()[i / 21]) * 21 + i % 21];
        const double exact = add ? before[i] + row : row;
        EXPECT_NEAR(y[i], exact, add ? rounding_of(dtype) * std::abs(exact) : 0);
      }
    }
  }
}

// A frequent token: 2^17 rows of 0.1 in f32, in blocks. One chain of additions loses three digits
// more.
TEST(Embedding, LongSumsAreMadeInBlocks) {
  constexpr int64_t kTokens = 1 << 17;
  EmbeddingProblem p(2, 3, drawn_tokens({kTokens}, 1, 6), DType::f32);
  for (float& d : p.d_y.values<float>()) d = 0.1f;
  p();
  const double expected = static_cast<double>(0.1f) * kTokens;
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(p.layer.weight.gradient.values<float>()[static_cast<size_t>(i)], expected,
                1e-5 * expected);
  for (int i = 3; i < 6; ++i)
    EXPECT_EQ(p.layer.weight.gradient.values<float>()[static_cast<size_t>(i)], 0);
}

TEST(Embedding, SameBitsForAnyThreads) {
  expect_same_bits([](const Context& context) {
    EmbeddingProblem p(300, 64, drawn_tokens({20000}, 300, 7), DType::f32);
    p(context);
    std::vector<Tensor> results;
    append_gradients(p.layer, results);
    results.push_back(std::move(p.y));
    return results;
  });
}

TEST(Embedding, CallsWithMemoryAllocateNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  EmbeddingProblem p(30, 5, drawn_tokens({7, 3}, 30, 8), DType::bf16);
  Counted()([&](nn::Arena&, const nn::Run& run) {
    laws::start_counting();
    forward(p.layer, p.tokens, p.y, run, true);
    backward(p.layer, p.tokens, p.d_y, run);
    EXPECT_EQ(laws::stop_counting().made, 0);
  });
}

TEST(Embedding, WhatIsRejectedWritesNothing) {
  EmbeddingProblem p(5, 2, drawn_tokens({2, 3}, 5, 9), DType::f32);
  const std::vector<double> y = values_of(p.y);
  std::vector<std::byte> memory(1 << 12);
  nn::Arena scratch(memory);
  const Context context;
  const nn::Run run{.scratch = scratch, .context = context};
  for (const int64_t bad : {-1, 5}) {
    Tensor tokens = Tensor::copy_of(p.tokens);
    tokens.values<int64_t>()[5] = bad;
    const std::vector<std::string> words = {"tokens[1, 2] is " + std::to_string(bad),
                                            "less than 5"};
    expect_error(ErrorCode::argument, words, [&] { forward(p.layer, tokens, p.y, run); });
    expect_error(ErrorCode::argument, words, [&] { backward(p.layer, tokens, p.d_y, run); });
  }
  Tensor doubles(DType::f64, {2, 3, 2}), flat(DType::f32, {6, 2}), halves(DType::i32, {2, 3});
  expect_error(ErrorCode::dtype, {"y [2, 3, 2]", "f64"},
               [&] { forward(p.layer, p.tokens, doubles, run); });
  expect_error(ErrorCode::shape, {"y [6, 2]", "[2, 3, 2]"},
               [&] { forward(p.layer, p.tokens, flat, run); });
  expect_error(ErrorCode::dtype, {"tokens", "i32", "i64"},
               [&] { forward(p.layer, halves, p.y, run); });
  expect_error(ErrorCode::overlap, {"y overlaps weight"}, [&] {
    forward(p.layer, integers({1}, {0}), p.layer.weight.value.view().slice(0, 0, 1), run);
  });
  EXPECT_EQ(values_of(p.y), y);
  for (const double g : values_of(p.layer.weight.gradient)) EXPECT_EQ(g, 0);
}

}  // namespace

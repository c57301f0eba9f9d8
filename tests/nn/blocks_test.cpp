// Transformer blocks and the GPT: gradients against central differences, bits, and what causal
// means.
#include <gtest/gtest.h>

#include <cstring>

#include "nn/gradient_check.h"
#include "rapt/mask/causal.h"
#include "rapt/nn/decoder_layer.h"
#include "rapt/nn/encoder_layer.h"
#include "rapt/nn/gpt.h"

namespace {

using namespace rapt;
using namespace nn_tests;

// An encoder layer with its tensors, of one shape.
struct EncoderProblem {
  nn::EncoderLayer layer;
  Tensor x, y, d_y, d_x;

  EncoderProblem(const nn::EncoderLayerSpec& spec, DType dtype, int64_t length = 5)
      : layer(nn::make_encoder_layer(6, 2, spec, dtype)),
        x(normal(dtype, {2, length, 6}, 50)),
        y(dtype, {2, length, 6}),
        d_y(normal(dtype, {2, length, 6}, 51)),
        d_x(dtype, {2, length, 6}) {
    draw_parameters(layer, 1);
  }

  void run(const Counted& counted, bool with_backward) {
    counted([&](nn::Arena& states, const nn::Run& run) {
      const auto state = make_state(layer, x.dims(), states);
      forward(layer, x, y, state, run);
      if (with_backward) backward(layer, x, d_y, state, d_x, run);
    });
  }
};

class EncoderLayerTest : public testing::TestWithParam<std::tuple<bool, double>> {};

TEST_P(EncoderLayerTest, GradientsAreCentralDifferences) {
  const auto [norm_first, dropout] = GetParam();
  EncoderProblem p({.hidden_features = 7,
                    .activation = Activation::gelu,
                    .norm_first = norm_first,
                    .dropout = dropout,
                    .attention = {.mask = "causal"}},
                   DType::f64);
  const Counted counted{.training = true, .seed = 3};
  p.run(counted, true);
  std::vector<Checked> checked{{"x", &p.x, &p.d_x}};
  add_parameters(p.layer, checked);
  ASSERT_EQ(checked.size(), 13u);
  expect_gradients(
      checked,
      [&] {
        p.run(counted, false);
        return dot(p.y, p.d_y);
      },
      8);
}

INSTANTIATE_TEST_SUITE_P(Forms, EncoderLayerTest,
                         testing::Combine(testing::Bool(), testing::Values(0.0, 0.3)));

TEST(EncoderLayerTest, SameBitsForAnyThreads) {
  Tensor first;
  for (const int threads : {1, 2, 5}) {
    EncoderProblem p({.hidden_features = 300, .dropout = 0.1}, DType::f32, 300);
    p.run({.context = {.threads = threads}, .training = true, .seed = 9}, true);
    if (!first.defined()) first = Tensor::copy_of(p.d_x);
    EXPECT_EQ(std::memcmp(first.data(), p.d_x.data(), static_cast<size_t>(first.count()) * 4), 0);
  }
}

class DecoderLayerTest : public testing::TestWithParam<std::tuple<bool, double>> {};

TEST_P(DecoderLayerTest, GradientsAreCentralDifferences) {
  const auto [norm_first, dropout] = GetParam();
  nn::DecoderLayer layer = nn::make_decoder_layer(6, 2,
                                                  {.hidden_features = 7,
                                                   .activation = Activation::silu,
                                                   .norm_first = norm_first,
                                                   .dropout = dropout,
                                                   .self_attention = {.mask = "causal"}},
                                                  DType::f64);
  draw_parameters(layer, 1);
  Tensor x = normal(DType::f64, {2, 4, 6}, 60), memory = normal(DType::f64, {2, 3, 6}, 61);
  Tensor y(DType::f64, {2, 4, 6}), d_y = normal(DType::f64, {2, 4, 6}, 62);
  Tensor d_x(DType::f64, {2, 4, 6}), d_memory = normal(DType::f64, {2, 3, 6}, 63, 0);
  const Counted counted{.training = true, .seed = 4};
  const auto run = [&](bool with_backward) {
    counted([&](nn::Arena& states, const nn::Run& r) {
      const auto state = make_state(layer, x.dims(), memory.dims(), states);
      forward(layer, x, memory, y, state, r);
      if (with_backward) backward(layer, x, memory, d_y, state, d_x, d_memory, r);
    });
  };
  run(true);
  std::vector<Checked> checked{{"x", &x, &d_x}, {"memory", &memory, &d_memory}};
  add_parameters(layer, checked);
  ASSERT_EQ(checked.size(), 20u);
  expect_gradients(
      checked,
      [&] {
        run(false);
        return dot(y, d_y);
      },
      8);
}

INSTANTIATE_TEST_SUITE_P(Forms, DecoderLayerTest,
                         testing::Combine(testing::Bool(), testing::Values(0.0, 0.3)));

struct GptProblem {
  nn::Gpt model;
  std::vector<int64_t> tokens{3, 1, 4, 1, 5, 0, 2, 6};
  Tensor logits, d_logits;

  explicit GptProblem(const nn::GptSpec& spec, DType dtype = DType::f64)
      : model(nn::make_gpt(spec, dtype)),
        logits(dtype, {2, 4, spec.vocabulary}),
        d_logits(normal(dtype, {2, 4, spec.vocabulary}, 70)) {
    draw_parameters(model, 1);
  }
  void run(const Counted& counted, bool with_backward) {
    const TensorView view(std::as_const(tokens).data(), {2, 4});
    counted([&](nn::Arena& states, const nn::Run& r) {
      const auto state = make_state(model, 2, 4, states);
      forward(model, view, logits, state, r);
      if (with_backward) backward(model, view, d_logits, state, r);
    });
  }
};

TEST(GptTest, GradientsAreCentralDifferences) {
  for (const char* rotary : {"", "rotary"}) {
    GptProblem p({.vocabulary = 7,
                  .context = 4,
                  .layers = 2,
                  .heads = 2,
                  .features = 8,
                  .dropout = 0.2,
                  .attention = {.rotary = rotary}});
    const Counted counted{.training = true, .seed = 5};
    p.run(counted, true);
    std::vector<Checked> checked;
    add_parameters(p.model, checked);
    EXPECT_EQ(checked.front().name, "wte.weight");
    expect_gradients(
        checked,
        [&] {
          p.run(counted, false);
          return dot(p.logits, p.d_logits);
        },
        6);
  }
}

TEST(GptTest, LogitsDoNotDependOnLaterTokens) {
  GptProblem p({.vocabulary = 7, .context = 4, .layers = 2, .heads = 2, .features = 8});
  p.run({}, false);
  const Tensor before = Tensor::copy_of(p.logits);
  p.tokens[3] = 6, p.tokens[7] = 1;
  p.run({}, false);
  const auto a = before.values<double>();
  const auto b = std::as_const(p.logits).values<double>();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i] == b[i], i / 7 % 4 != 3) << i;
}

TEST(GptTest, RejectsWhatDoesNotFit) {
  EXPECT_THROW(nn::make_gpt({.vocabulary = 0, .context = 4}), Error);
  EXPECT_THROW(nn::make_gpt({.vocabulary = 5, .context = 4, .heads = 3, .features = 8}), Error);
  const nn::Gpt model = nn::make_gpt({.vocabulary = 5, .context = 4, .heads = 2, .features = 8});
  nn::Arena counter;
  EXPECT_THROW(make_state(model, 1, 5, counter), Error);
}

}  // namespace

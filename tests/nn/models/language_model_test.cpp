// Language models: gradients against central differences, what causal means, specs.
#include "rapt/nn/language_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/models/model_problem.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;
using nn::LanguageModelLayout;
using nn::LanguageModelSpec;

TEST(LanguageModel, GradientsAreCentralDifferences) {
  for (const LanguageModelLayout layout : kLayouts) {
    LanguageModelSpec spec = small_model(layout);
    spec.attention_dropout = 0.2;
    if (layout == LanguageModelLayout::gpt2) spec.embedding_dropout = spec.residual_dropout = 0.1;
    ModelProblem p(spec);
    const Counted counted{.training = true, .seed = 7};
    p.run(counted, true);
    std::vector<Checked> checked;
    add_parameters(p.model, checked);
    expect_gradients(
        checked,
        [&] {
          p.run(counted, false);
          return p.loss;
        },
        5);
  }
}

TEST(LanguageModel, HasTheParametersOfItsLayout) {
  const auto names = [](LanguageModelLayout layout) {
    nn::LanguageModel model = make_language_model(small_model(layout));
    std::string all;
    visit(model, [&](const std::string& name, nn::Parameter&) { all += name + " "; });
    return all;
  };
  const std::string gpt2 = names(LanguageModelLayout::gpt2);
  const std::string llama = names(LanguageModelLayout::llama);
  const std::string qwen3 = names(LanguageModelLayout::qwen3);
  EXPECT_NE(gpt2.find("positions.weight "), std::string::npos) << gpt2;
  EXPECT_NE(gpt2.find("layers.1.norm2.bias "), std::string::npos) << gpt2;
  EXPECT_EQ(llama.find("positions.weight "), std::string::npos) << llama;
  EXPECT_EQ(llama.find("norm1.bias "), std::string::npos) << llama;
  EXPECT_NE(llama.find("norm.weight head "), std::string::npos) << llama;
  EXPECT_NE(qwen3.find("layers.0.self_attn.q_norm.weight "), std::string::npos) << qwen3;
  EXPECT_EQ(qwen3.find("bias "), std::string::npos) << qwen3;
}

TEST(LanguageModel, LogitsDoNotDependOnLaterTokens) {
  for (const LanguageModelLayout layout : kLayouts) {
    ModelProblem p(small_model(layout));
    p.run({}, false);
    const Tensor before = Tensor::copy_of(p.logits.view());
    int64_t& last = p.tokens.values<int64_t>()[5];
    last = (last + 1) % 11;
    p.run({}, false);
    const auto a = before.values<double>();
    const auto b = std::as_const(p.logits).values<double>();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i] == b[i], i / 11 != 5) << i;
  }
}

TEST(LanguageModel, CapturesOfTheLastBlockRemain) {
  for (const LanguageModelLayout layout : kLayouts) {
    ModelProblem p(small_model(layout));
    Tensor of_model(DType::f64, {2, 4, 6, 6}), of_last(DType::f64, {2, 4, 6, 6}),
        of_first(DType::f64, {2, 4, 6, 6});
    Counted{}([&](nn::Arena& states, const nn::Run& run) {
      const auto state = make_state(p.model, 2, 6, states);
      nn::MultiHeadCall call;
      call.options.weights = WeightsRequest{};
      call.weights = of_model;
      forward(p.model, p.tokens, state, run, call);
      call.weights = of_last;
      forward(p.model.layers[1], state.x[1], state.x[2], state.layers[1], run, call);
      call.weights = of_first;
      forward(p.model.layers[0], state.x[0], state.x[1], state.layers[0], run, call);
    });
    EXPECT_EQ(difference(of_model, of_last), 0);
    EXPECT_GT(difference(of_model, of_first), 1e-3) << "blocks that differ";
  }
}

TEST(LanguageModel, TheLossIsThatOfTheLogits) {
  for (const LanguageModelLayout layout : kLayouts) {
    ModelProblem p(small_model(layout));
    p.run({}, false);
    double expected = 0;
    Counted{}([&](nn::Arena& states, const nn::Run& run) {
      const TensorView lse = states.take(DType::f64, {2, 6});
      expected = cross_entropy(p.logits, p.targets, lse, run);
    });
    EXPECT_NEAR(p.loss, expected, 1e-12);
  }
}

TEST(LanguageModel, GradientsDoNotDependOnKeptLogits) {
  for (const LanguageModelLayout layout : kLayouts) {
    ModelProblem kept(small_model(layout)), other(small_model(layout));
    kept.run({}, true);
    Counted{}([&](nn::Arena& states, const nn::Run& run) {
      auto state = make_state(other.model, 2, 6, states);
      EXPECT_TRUE(state.logits.defined());
      state.logits = {};
      forward(other.model, other.tokens, state, run);
      other.loss = target_loss(other.model, other.targets, state, run);
      backward(other.model, other.tokens, other.targets, state, run);
    });
    EXPECT_NEAR(kept.loss, other.loss, 1e-12);
    const auto expected = parameters_of(other.model), found = parameters_of(kept.model);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_LE(difference(found[i]->gradient, expected[i]->gradient), 1e-11) << i;
  }
}

TEST(LanguageModel, KeepsLogitsOfAtMost64MiB) {
  const LanguageModelSpec spec{.vocabulary = 1 << 16};
  EXPECT_EQ(kept_logits_bytes(spec, DType::f32, 256), 0x1p26);
  EXPECT_EQ(kept_logits_bytes(spec, DType::f32, 257), 0);
  EXPECT_EQ(kept_logits_bytes(spec, DType::bf16, 512), 0x1p26);
}

TEST(LanguageModel, InitialValuesHaveTheirSpread) {
  LanguageModelSpec spec = small_model(LanguageModelLayout::gpt2);
  spec.features = 64;
  nn::LanguageModel model = make_language_model(spec);
  initialize_language_model(model, 3);
  const auto spread = [](const nn::Parameter& p) {
    double squares = 0;
    for (const double x : values_of(p.value)) squares += x * x;
    return std::sqrt(squares / static_cast<double>(p.value.count()));
  };
  EXPECT_NEAR(spread(model.layers[0].self_attn.in_proj_weight), 0.02, 0.001);
  EXPECT_NEAR(spread(model.layers[0].self_attn.out_proj.weight), 0.01, 0.001);
  EXPECT_EQ(spread(model.layers[0].self_attn.in_proj_bias), 0);
  EXPECT_EQ(spread(std::get<nn::LayerNorm>(model.norm.kind).weight), 1);
}

TEST(LanguageModel, RejectsSpecsByName) {
  const auto refused = [](const char* name, LanguageModelLayout layout, const auto& change) {
    LanguageModelSpec spec = small_model(layout);
    change(spec);
    expect_error(ErrorCode::argument, {name}, [&] { make_language_model(spec); });
  };
  const auto gpt2 = LanguageModelLayout::gpt2, qwen3 = LanguageModelLayout::qwen3;
  refused("vocabulary is 0", gpt2, [](auto& s) { s.vocabulary = 0; });
  refused("heads", gpt2, [](auto& s) { s.heads = 3; });
  refused("gpt2 has no kv_heads", gpt2, [](auto& s) { s.kv_heads = 2; });
  refused("gpt2 has no head_dim", gpt2, [](auto& s) { s.head_dim = 3; });
  refused("qwen3 has no network_bias", qwen3, [](auto& s) { s.network_bias = true; });
  refused("qwen3 has no residual_dropout", qwen3, [](auto& s) { s.residual_dropout = 0.1; });
  refused("num_kv_heads 3", qwen3, [](auto& s) { s.kv_heads = 3; });
  refused("a dropout is 1", gpt2, [](auto& s) { s.attention_dropout = 1; });
}

TEST(LanguageModel, RejectsMoreTokensThanPositions) {
  const nn::LanguageModel model = make_language_model(small_model(LanguageModelLayout::llama));
  nn::Arena counter;
  expect_error(ErrorCode::shape, {"10 tokens", "9 positions"},
               [&] { make_state(model, 1, 10, counter); });
}

}  // namespace

// Tensors of language models by transformers' names.
#include "rapt/checkpoint/model_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/small_models.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace checkpoint_tests;
using checkpoint::load_model_tensors;
using checkpoint::model_tensors;
using laws::expect_error;
using nn::LanguageModelLayout;

std::string names_and_shapes(const std::vector<NamedTensor>& tensors, const std::string& part) {
  std::string all;
  for (const NamedTensor& tensor : tensors)
    if (tensor.name.find(part) != std::string::npos)
      all += tensor.name + " " + to_string(tensor.view.dims()) + "\n";
  return all;
}

TEST(ModelTensors, HaveTheNamesOfGpt2) {
  const nn::LanguageModel model = small_language_model(LanguageModelLayout::gpt2, true);
  const auto tensors = model_tensors(model);
  EXPECT_EQ(names_and_shapes(tensors, "h.1."),
            "transformer.h.1.ln_1.weight [4]\n"
            "transformer.h.1.ln_1.bias [4]\n"
            "transformer.h.1.attn.c_attn.weight [4, 12]\n"
            "transformer.h.1.attn.c_attn.bias [12]\n"
            "transformer.h.1.attn.c_proj.weight [4, 4]\n"
            "transformer.h.1.attn.c_proj.bias [4]\n"
            "transformer.h.1.ln_2.weight [4]\n"
            "transformer.h.1.ln_2.bias [4]\n"
            "transformer.h.1.mlp.c_fc.weight [4, 6]\n"
            "transformer.h.1.mlp.c_fc.bias [6]\n"
            "transformer.h.1.mlp.c_proj.weight [6, 4]\n"
            "transformer.h.1.mlp.c_proj.bias [4]\n");
  EXPECT_EQ(names_and_shapes(tensors, "transformer.w"),
            "transformer.wte.weight [7, 4]\ntransformer.wpe.weight [5, 4]\n");
  EXPECT_EQ(names_and_shapes(tensors, "ln_f"),
            "transformer.ln_f.weight [4]\ntransformer.ln_f.bias [4]\n");
  EXPECT_EQ(names_and_shapes(tensors, "lm_head"), "");
}

TEST(ModelTensors, HaveTheNamesOfLlamaAndQwen3) {
  const std::string layer =
      "model.layers.0.input_layernorm.weight [4]\n"
      "model.layers.0.self_attn.q_proj.weight [12, 4]\n"
      "model.layers.0.self_attn.k_proj.weight [6, 4]\n"
      "model.layers.0.self_attn.v_proj.weight [6, 4]\n"
      "model.layers.0.self_attn.o_proj.weight [4, 12]\n";
  const std::string norms =
      "model.layers.0.self_attn.q_norm.weight [6]\n"
      "model.layers.0.self_attn.k_norm.weight [6]\n";
  const std::string network =
      "model.layers.0.post_attention_layernorm.weight [4]\n"
      "model.layers.0.mlp.gate_proj.weight [6, 4]\n"
      "model.layers.0.mlp.up_proj.weight [6, 4]\n"
      "model.layers.0.mlp.down_proj.weight [4, 6]\n";
  const nn::LanguageModel llama = small_language_model(LanguageModelLayout::llama, false);
  const nn::LanguageModel qwen3 = small_language_model(LanguageModelLayout::qwen3, true);
  EXPECT_EQ(names_and_shapes(model_tensors(llama), "layers.0."), layer + network);
  EXPECT_EQ(names_and_shapes(model_tensors(qwen3), "layers.0."), layer + norms + network);
  EXPECT_EQ(names_and_shapes(model_tensors(llama), "lm_head"), "lm_head.weight [7, 4]\n");
  EXPECT_EQ(names_and_shapes(model_tensors(qwen3), "lm_head"), "");
  EXPECT_EQ(names_and_shapes(model_tensors(qwen3), "embed_tokens"),
            "model.embed_tokens.weight [7, 4]\n");
}

TEST(ModelTensors, AreViewsOfAllParameters) {
  for (const LanguageModelLayout layout : kAllLayouts) {
    nn::LanguageModel model = small_language_model(layout, false);
    int64_t elements = 0;
    for (const NamedTensor& tensor : model_tensors(model)) {
      elements += tensor.view.count();
      EXPECT_FALSE(tensor.view.read_only) << tensor.name;
    }
    EXPECT_EQ(elements, count_parameters(model));
    for (const NamedTensor& tensor : model_tensors(std::as_const(model)))
      EXPECT_TRUE(tensor.view.read_only) << tensor.name;
  }
}

TEST(ModelTensors, AreLoadedUnderOlderNames) {
  for (const LanguageModelLayout layout : kAllLayouts) {
    nn::LanguageModel model = small_language_model(layout, true);
    nn::LanguageModel other = small_language_model(layout, true, 2);
    const bool gpt2 = layout == LanguageModelLayout::gpt2;
    std::vector<NamedTensor> given = model_tensors(model);
    for (NamedTensor& tensor : given) tensor.name.erase(0, tensor.name.find('.') + 1);
    Tensor buffer(DType::f32, {3, 3});
    given.push_back({gpt2 ? "h.0.attn.bias" : "layers.0.self_attn.rotary_emb.inv_freq", buffer});
    given.push_back({"lm_head.weight", model.embedding.weight.value.view()});
    load_model_tensors(other, given);
    EXPECT_TRUE(same_parameters(model, other));
  }
}

TEST(ModelTensors, RejectsTensorsOfAnotherModel) {
  nn::LanguageModel model = small_language_model(LanguageModelLayout::llama, false);
  nn::LanguageModel other = small_language_model(LanguageModelLayout::llama, false, 2);
  std::vector<NamedTensor> given = model_tensors(model);
  given[1].name = "model.layers.0.sandwich_norm.weight";
  expect_error(ErrorCode::argument,
               {"missing: model.layers.0.input_layernorm.weight",
                "additional: model.layers.0.sandwich_norm.weight"},
               [&] { load_model_tensors(other, given); });
  EXPECT_FALSE(same_parameters(model, other));
}

}  // namespace

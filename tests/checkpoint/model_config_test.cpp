// config.json: keys and defaults of transformers, what is rejected, and what is written.
#include "rapt/checkpoint/model_config.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace {

using namespace rapt;
using checkpoint::read_model_config;
using checkpoint::write_model_config;
using laws::expect_error;
using nn::LanguageModelLayout;
using nn::LanguageModelSpec;

TEST(ModelConfig, ReadsGpt2WithItsDefaults) {
  const LanguageModelSpec spec = read_model_config(R"({"model_type": "gpt2", "n_layer": 3,
      "n_inner": null, "activation_function": "gelu", "resid_pdrop": 0, "n_ctx": 1024,
      "task_specific_params": {"text-generation": {"do_sample": true}}})");
  EXPECT_EQ(spec.layout, LanguageModelLayout::gpt2);
  EXPECT_EQ(spec.layers, 3);
  EXPECT_EQ(spec.vocabulary, 50257);
  EXPECT_EQ(spec.context, 1024);
  EXPECT_EQ(spec.features, 768);
  EXPECT_EQ(spec.heads, 12);
  EXPECT_EQ(spec.hidden_features, 0);
  EXPECT_EQ(spec.activation, Activation::gelu);
  EXPECT_EQ(spec.residual_dropout, 0);
  EXPECT_EQ(spec.attention_dropout, 0.1);
  EXPECT_TRUE(spec.tied_head);
}

TEST(ModelConfig, ReadsLlamaOfEarlierVersions) {
  const LanguageModelSpec spec = read_model_config(R"({"model_type": "llama", "hidden_size": 64,
      "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": null, "rope_theta": 500000.0,
      "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
      "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "tie_word_embeddings": true})");
  EXPECT_EQ(spec.layout, LanguageModelLayout::llama);
  EXPECT_EQ(spec.kv_heads, 2);
  EXPECT_EQ(spec.head_dim, 0);
  EXPECT_EQ(spec.context, 131072);
  EXPECT_EQ(spec.norm_epsilon, 1e-5);
  EXPECT_EQ(spec.activation, Activation::silu);
  EXPECT_EQ(spec.rotary.theta, 500000);
  EXPECT_EQ(spec.rotary.scaling, RotaryScaling::llama3);
  EXPECT_EQ(spec.rotary.factor, 32);
  EXPECT_EQ(spec.rotary.original_length, 8192);
  EXPECT_TRUE(spec.tied_head);
}

TEST(ModelConfig, ReadsQwen3WithRopeParameters) {
  const LanguageModelSpec spec = read_model_config(R"({"model_type": "qwen3",
      "num_hidden_layers": 2, "layer_types": ["full_attention", "full_attention"],
      "sliding_window": null, "use_sliding_window": false, "max_window_layers": 28,
      "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000, "factor": 4.0,
      "original_max_position_embeddings": 32768}})");
  EXPECT_EQ(spec.layout, LanguageModelLayout::qwen3);
  EXPECT_EQ(spec.head_dim, 128);
  EXPECT_EQ(spec.rotary.scaling, RotaryScaling::yarn);
  EXPECT_EQ(spec.rotary.theta, 1000000);
  EXPECT_EQ(spec.rotary.attention_factor, 0);
  EXPECT_FALSE(spec.tied_head);
}

TEST(ModelConfig, RejectsWhatTheModelDoesNotHave) {
  const auto refused = [](const std::string& type, const std::string& keys, const char* name) {
    expect_error(ErrorCode::unsupported, {"config.json: ", name}, [&] {
      read_model_config("{\"model_type\": \"" + type + "\"" + (keys.empty() ? "" : ", ") + keys +
                        "}");
    });
  };
  refused("mistral", "", "model_type is '\"mistral\"'; expected gpt2, llama or qwen3");
  refused("gpt2", R"("activation_function": "mish")", "activation_function");
  refused("gpt2", R"("scale_attn_weights": false)", "scale_attn_weights is 'false'");
  refused("gpt2", R"("scale_attn_by_inverse_layer_idx": true)", "scale_attn_by_inverse_layer_idx");
  refused("gpt2", R"("add_cross_attention": true)", "add_cross_attention");
  refused("llama", R"("quantization_config": {"bits": 4})", "quantization_config");
  refused("llama", R"("rope_scaling": {"type": "longrope", "factor": 2.0})", "rope_scaling.type");
  // Longer texts than the context, which change these frequencies, are decoded.
  refused("llama", R"("rope_scaling": {"type": "dynamic", "factor": 2.0})", "rope_scaling.type");
  refused("llama", R"("rope_parameters": {"rope_type": "longrope"})", "rope_parameters.rope_type");
  refused("llama", R"("rope_parameters": {"partial_rotary_factor": 0.5})", "partial_rotary_factor");
  refused("qwen3", R"("use_sliding_window": true)", "use_sliding_window");
  refused("qwen3", R"("layer_types": ["sliding_attention"])", "layer_types");
}

TEST(ModelConfig, RejectsWhatIsNoConfig) {
  const auto malformed = [](const std::string& text, const char* part) {
    expect_error(ErrorCode::format, {"config.json", part}, [&] { read_model_config(text); });
  };
  malformed("", "malformed at its byte");
  malformed("[]", "expected an object");
  malformed("{\"model_type\": \"gpt2\"", "malformed at its byte");
  malformed(std::string("{}\0", 3), "zero byte");
  malformed("{\"model_type\": 1}", "model_type is '1'; expected a text");
  malformed(R"({"model_type": "gpt2", "n_layer": 2.5})", "n_layer is '2.5'; expected an integer");
  malformed(R"({"model_type": "gpt2", "n_layer": -1})", "n_layer is '-1'");
  malformed(R"({"model_type": "gpt2", "n_layer": 18446744073709551615})", "n_layer");
  malformed(R"({"model_type": "gpt2", "layer_norm_epsilon": "1e-5"})", "layer_norm_epsilon");
  malformed(R"({"model_type": "gpt2", "layer_norm_epsilon": 1e999})", "too large");
  malformed(R"({"model_type": "llama", "rope_parameters": 1})", "rope_parameters");
  malformed("{\"a\": " + std::string(100, '[') + std::string(100, ']') + "}", "16 deep");
  malformed(std::string((1 << 20) + 1, ' '), "at most 1048576 bytes");
}

void expect_same(const LanguageModelSpec& a, const LanguageModelSpec& b) {
  EXPECT_EQ(a.layout, b.layout);
  EXPECT_EQ(a.vocabulary, b.vocabulary);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.features, b.features);
  EXPECT_EQ(a.hidden_features, b.hidden_features);
  EXPECT_EQ(a.activation, b.activation);
  EXPECT_EQ(a.norm_epsilon, b.norm_epsilon);
  EXPECT_EQ(a.attention_bias, b.attention_bias);
  EXPECT_EQ(a.network_bias, b.network_bias);
  EXPECT_EQ(a.tied_head, b.tied_head);
  EXPECT_EQ(a.embedding_dropout, b.embedding_dropout);
  EXPECT_EQ(a.attention_dropout, b.attention_dropout);
  EXPECT_EQ(a.residual_dropout, b.residual_dropout);
  EXPECT_EQ(a.initializer_range, b.initializer_range);
  EXPECT_EQ(a.rotary.theta, b.rotary.theta);
  EXPECT_EQ(a.rotary.scaling, b.rotary.scaling);
  EXPECT_EQ(a.rotary.factor, b.rotary.factor);
  EXPECT_EQ(a.rotary.original_length, b.rotary.original_length);
  EXPECT_EQ(a.rotary.low_frequency_factor, b.rotary.low_frequency_factor);
  EXPECT_EQ(a.rotary.attention_factor, b.rotary.attention_factor);
  EXPECT_EQ(a.rotary.truncate, b.rotary.truncate);
}

// The spec of a model that is read from what is written of it.
LanguageModelSpec again(const LanguageModelSpec& spec) {
  const LanguageModelSpec read = read_model_config(write_model_config(spec, DType::f32));
  return make_language_model(read).spec;
}

TEST(ModelConfig, IsReadAsItIsWritten) {
  LanguageModelSpec spec{.vocabulary = 7, .context = 5, .layers = 1, .heads = 2, .features = 8};
  spec.activation = Activation::relu, spec.norm_epsilon = 0.1, spec.tied_head = false;
  spec.embedding_dropout = 0.1, spec.attention_dropout = 0.2, spec.residual_dropout = 0.3;
  spec = make_language_model(spec).spec;
  expect_same(again(spec), spec);

  spec = {.layout = LanguageModelLayout::llama,
          .vocabulary = 7,
          .context = 5,
          .layers = 1,
          .heads = 4,
          .features = 8};
  spec.kv_heads = 2, spec.head_dim = 6, spec.network_bias = true, spec.initializer_range = 0.3;
  spec.rotary.theta = 12.5, spec.rotary.factor = 3, spec.rotary.scaling = RotaryScaling::yarn;
  spec.rotary.original_length = 64, spec.rotary.attention_factor = 1.5;
  spec.rotary.truncate = false;
  const LanguageModelSpec llama = make_language_model(spec).spec;
  expect_same(again(llama), llama);

  spec.layout = LanguageModelLayout::qwen3, spec.network_bias = false, spec.attention_bias = true;
  spec.rotary = {.scaling = RotaryScaling::llama3, .factor = 8, .low_frequency_factor = 2};
  const LanguageModelSpec qwen3 = make_language_model(spec).spec;
  expect_same(again(qwen3), qwen3);
}

TEST(ModelConfig, RefusesToWriteWhatTransformersDoesNotHave) {
  LanguageModelSpec spec{.layout = LanguageModelLayout::llama,
                         .vocabulary = 7,
                         .context = 5,
                         .layers = 1,
                         .heads = 2,
                         .features = 8};
  expect_error(ErrorCode::argument, {"expected that of a model"},
               [&] { write_model_config(spec, DType::f32); });
  spec = make_language_model(spec).spec;
  const auto refused = [&](const char* part, const Rotary& rotary) {
    spec.rotary = rotary;
    expect_error(ErrorCode::unsupported, {part}, [&] { write_model_config(spec, DType::f32); });
  };
  refused("interleaved", {.pairs = RotaryPairs::interleaved});
  refused("a part of head_dim", {.dims = 2});
  refused("NTK", {.scaling = RotaryScaling::ntk, .factor = 2});
}

}  // namespace

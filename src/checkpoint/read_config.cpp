// Reads the spec of a language model from a config.
#include <nlohmann/json.hpp>

#include "checkpoint/activation_names.h"
#include "checkpoint/rotary_config.h"
#include "rapt/checkpoint/model_config.h"

namespace rapt::checkpoint {
namespace {

using nn::LanguageModelLayout;
using nn::LanguageModelSpec;

// configuration_gpt2.py.
LanguageModelSpec read_gpt2(const ConfigObject& config) {
  config.require("scale_attn_weights", true, true);
  config.require("scale_attn_by_inverse_layer_idx", false, false);
  config.require("add_cross_attention", false, false);
  LanguageModelSpec spec{.layout = LanguageModelLayout::gpt2,
                         .vocabulary = config.integer("vocab_size", 50257),
                         .context = config.integer("n_positions", 1024),
                         .layers = config.integer("n_layer", 12),
                         .heads = config.integer("n_head", 12),
                         .features = config.integer("n_embd", 768)};
  spec.hidden_features = config.integer("n_inner", 0);
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  spec.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  spec.embedding_dropout = config.number("embd_pdrop", 0.1);
  spec.attention_dropout = config.number("attn_pdrop", 0.1);
  spec.residual_dropout = config.number("resid_pdrop", 0.1);
  spec.tied_head = config.boolean("tie_word_embeddings", true);
  return spec;
}

// The defaults in which LlamaConfig and Qwen3Config differ.
struct LlamaDefaults {
  LanguageModelLayout layout;
  int64_t vocabulary, context, hidden_features, head_dim;  // head_dim 0: hidden_size / heads
};
// configuration_llama.py, configuration_qwen3.py.
constexpr LlamaDefaults kLlamaDefaults = {LanguageModelLayout::llama, 32000, 2048, 11008, 0};
constexpr LlamaDefaults kQwen3Defaults = {LanguageModelLayout::qwen3, 151936, 32768, 22016, 128};

LanguageModelSpec read_llama(const ConfigObject& config, const LlamaDefaults& defaults) {
  LanguageModelSpec spec{.layout = defaults.layout,
                         .vocabulary = config.integer("vocab_size", defaults.vocabulary),
                         .context = config.integer("max_position_embeddings", defaults.context),
                         .layers = config.integer("num_hidden_layers", 32),
                         .heads = config.integer("num_attention_heads", 32),
                         .features = config.integer("hidden_size", 4096)};
  spec.kv_heads = config.integer("num_key_value_heads", spec.heads);
  spec.head_dim = config.integer("head_dim", defaults.head_dim);
  spec.hidden_features = config.integer("intermediate_size", defaults.hidden_features);
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.norm_epsilon = config.number("rms_norm_eps", 1e-6);
  spec.attention_bias = config.boolean("attention_bias", false);
  spec.attention_dropout = config.number("attention_dropout", 0);
  spec.tied_head = config.boolean("tie_word_embeddings", false);
  spec.rotary = read_rotary(config, spec.context, false);
  if (defaults.layout == LanguageModelLayout::llama) {
    spec.network_bias = config.boolean("mlp_bias", false);
  } else {
    config.require("use_sliding_window", false, false);
    config.require_texts("layer_types", "full_attention");
  }
  return spec;
}

}  // namespace

LanguageModelSpec read_model_config(std::string_view text, const std::string& file) {
  const nlohmann::json json = parse_config(text, file);
  const ConfigObject config(json, file);
  if (config.has("quantization_config"))
    config.reject("quantization_config", "none: quantised weights are not read");
  const std::string type = config.text("model_type", "");
  LanguageModelSpec spec;
  if (type == "gpt2")
    spec = read_gpt2(config);
  else if (type == "llama")
    spec = read_llama(config, kLlamaDefaults);
  else if (type == "qwen3")
    spec = read_llama(config, kQwen3Defaults);
  else
    config.reject("model_type", "gpt2, llama or qwen3");
  spec.initializer_range = config.number("initializer_range", 0.02);
  return spec;
}

std::vector<int64_t> read_stop_tokens(std::string_view text, const std::string& file) {
  const nlohmann::json json = parse_config(text, file);
  return ConfigObject(json, file).integers("eos_token_id");
}

}  // namespace rapt::checkpoint

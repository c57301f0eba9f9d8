// Writes the config of a language model.
#include <nlohmann/json.hpp>

#include "checkpoint/activation_names.h"
#include "checkpoint/rotary_config.h"
#include "rapt/checkpoint/model_config.h"

namespace rapt::checkpoint {
namespace {

using OrderedJson = nlohmann::ordered_json;

const char* name_of_activation(Activation activation) {
  for (const auto& [name, one] : kActivationNames)
    if (one == activation) return name;
  throw Error(ErrorCode::argument,
              "activation " + std::to_string(static_cast<int>(activation)) + " is unknown");
}

const char* torch_name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::bf16:
      return "bfloat16";
    default:
      return "float16";
  }
}

void write_gpt2(const nn::LanguageModelSpec& spec, OrderedJson& config) {
  config["n_positions"] = spec.context;
  config["n_embd"] = spec.features;
  config["n_layer"] = spec.layers;
  config["n_head"] = spec.heads;
  config["n_inner"] = spec.hidden_features;
  config["activation_function"] = name_of_activation(*spec.activation);
  config["layer_norm_epsilon"] = spec.norm_epsilon;
  config["embd_pdrop"] = spec.embedding_dropout;
  config["attn_pdrop"] = spec.attention_dropout;
  config["resid_pdrop"] = spec.residual_dropout;
}

void write_llama(const nn::LanguageModelSpec& spec, OrderedJson& config) {
  config["max_position_embeddings"] = spec.context;
  config["hidden_size"] = spec.features;
  config["num_hidden_layers"] = spec.layers;
  config["num_attention_heads"] = spec.heads;
  config["num_key_value_heads"] = spec.kv_heads;
  config["head_dim"] = spec.head_dim;
  config["intermediate_size"] = spec.hidden_features;
  config["hidden_act"] = name_of_activation(*spec.activation);
  config["rms_norm_eps"] = spec.norm_epsilon;
  config["attention_bias"] = spec.attention_bias;
  config["attention_dropout"] = spec.attention_dropout;
  config["rope_parameters"] = write_rotary(spec.rotary, spec.head_dim);
  if (spec.layout == nn::LanguageModelLayout::llama) config["mlp_bias"] = spec.network_bias;
}

}  // namespace

std::string write_model_config(const nn::LanguageModelSpec& spec, DType dtype) {
  if (!spec.activation || spec.kv_heads < 1 || spec.head_dim < 1 || spec.hidden_features < 1)
    throw Error(ErrorCode::argument,
                "the spec has zeros and absent values; expected that of a model, as "
                "make_language_model() replaces them");
  const bool gpt2 = spec.layout == nn::LanguageModelLayout::gpt2;
  const char* const classes[] = {"GPT2LMHeadModel", "LlamaForCausalLM", "Qwen3ForCausalLM"};
  OrderedJson config;
  config["architectures"] = OrderedJson::array({classes[static_cast<int>(spec.layout)]});
  config["model_type"] = nn::kLanguageModelLayoutNames[static_cast<int>(spec.layout)];
  config["vocab_size"] = spec.vocabulary;
  if (gpt2)
    write_gpt2(spec, config);
  else
    write_llama(spec, config);
  config["tie_word_embeddings"] = spec.tied_head;
  config["initializer_range"] = spec.initializer_range;
  config["dtype"] = torch_name_of(dtype);
  return config.dump(2) + "\n";
}

}  // namespace rapt::checkpoint

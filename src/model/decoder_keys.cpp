#include "model/decoder_keys.h"

#include <algorithm>
#include <string_view>

namespace rapt::model {
namespace {

// Read by read_decoder_spec.cpp and rotary_config.cpp.
constexpr std::string_view kReadKeys[] = {"activation_function",
                                          "add_cross_attention",
                                          "architectures",
                                          "attention_bias",
                                          "attn_logit_softcapping",
                                          "final_logit_softcapping",
                                          "head_dim",
                                          "hidden_act",
                                          "hidden_activation",
                                          "hidden_size",
                                          "intermediate_size",
                                          "layer_norm_epsilon",
                                          "layer_types",
                                          "max_position_embeddings",
                                          "max_window_layers",
                                          "mlp_bias",
                                          "model_type",
                                          "n_embd",
                                          "n_head",
                                          "n_inner",
                                          "n_layer",
                                          "n_positions",
                                          "num_attention_heads",
                                          "num_hidden_layers",
                                          "num_key_value_heads",
                                          "original_max_position_embeddings",
                                          "partial_rotary_factor",
                                          "query_pre_attn_scalar",
                                          "rms_norm_eps",
                                          "rope_parameters",
                                          "rope_scaling",
                                          "rope_theta",
                                          "scale_attn_by_inverse_layer_idx",
                                          "scale_attn_weights",
                                          "sliding_window",
                                          "tie_word_embeddings",
                                          "use_bidirectional_attention",
                                          "use_sliding_window",
                                          "vocab_size"};

// Keys of training, of tokenizers and of other results, and keys that choose an implementation,
// which changes no number.
constexpr std::string_view kWithoutEffect[] = {"_attn_implementation",
                                               "_attn_implementation_autoset",
                                               "_name_or_path",
                                               "attention_dropout",
                                               "attn_pdrop",
                                               "bos_token_id",
                                               "cache_implementation",
                                               "chunk_size_feed_forward",
                                               "dtype",
                                               "embd_pdrop",
                                               "eos_token_id",
                                               "id2label",
                                               "initializer_range",
                                               "is_encoder_decoder",
                                               "label2id",
                                               "n_ctx",
                                               "output_attentions",
                                               "output_hidden_states",
                                               "pad_token_id",
                                               "pretraining_tp",
                                               "problem_type",
                                               "reorder_and_upcast_attn",
                                               "resid_pdrop",
                                               "return_dict",
                                               "summary_activation",
                                               "summary_first_dropout",
                                               "summary_proj_to_labels",
                                               "summary_type",
                                               "summary_use_proj",
                                               "task_specific_params",
                                               "torch_dtype",
                                               "transformers_version",
                                               "use_cache"};

// A key that rapt lacks, and what to do about it.
struct LackingKey {
  const char *key, *expected;
};
constexpr const char* kNoExperts = "none: mixtures of experts are not read; take a dense model";
constexpr const char* kNoPart = "none: it is of other models, and rapt does not compute with it";
constexpr LackingKey kLackingKeys[] = {{"auto_map", "none: code of a folder is not run"},
                                       {"num_local_experts", kNoExperts},
                                       {"num_experts", kNoExperts},
                                       {"n_routed_experts", kNoExperts},
                                       {"num_experts_per_tok", kNoExperts},
                                       {"alibi", kNoPart},
                                       {"attention_chunk_size", kNoPart},
                                       {"attention_multiplier", kNoPart},
                                       {"clip_qkv", kNoPart},
                                       {"embedding_multiplier", kNoPart},
                                       {"logit_scale", kNoPart},
                                       {"logits_scaling", kNoPart},
                                       {"no_rope_layers", kNoPart},
                                       {"residual_multiplier", kNoPart},
                                       {"use_qk_norm", kNoPart}};

}  // namespace

void refuse_unsupported_keys(const checkpoint::ConfigObject& config) {
  if (config.has("quantization_config"))
    config.reject("quantization_config",
                  "none: quantised weights are not read; transformers writes others by "
                  "dequantize() and save_pretrained()");
  for (const auto& [key, expected] : kLackingKeys)
    if (!config.is_neutral(key)) config.reject(key, expected);
}

std::vector<std::string> unknown_keys(const checkpoint::ConfigObject& config) {
  std::vector<std::string> unknown;
  for (const std::string& key : config.keys()) {
    const auto is_key = [&](std::string_view known) { return key == known; };
    const auto is_lacking = [&](const LackingKey& lacking) { return key == lacking.key; };
    if (std::ranges::none_of(kReadKeys, is_key) && std::ranges::none_of(kWithoutEffect, is_key) &&
        std::ranges::none_of(kLackingKeys, is_lacking))
      unknown.push_back(key);
  }
  return unknown;
}

}  // namespace rapt::model

// config.json of BERT, RoBERTa and DistilBERT. Absent keys have the defaults of transformers'
// classes.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "checkpoint/activation_names.h"
#include "io/quoted.h"
#include "rapt/model/encoder_model.h"

namespace rapt::model {
namespace {

using checkpoint::ConfigObject;

// The beginnings of the names of a family's classes in transformers; kEncoderClassEnds follow.
constexpr const char* kEncoderClassNames[] = {"Bert", "Roberta", "DistilBert"};
constexpr std::string_view kEncoderClassEnds[] = {"Model",
                                                  "ForMaskedLM",
                                                  "ForPreTraining",
                                                  "ForSequenceClassification",
                                                  "ForTokenClassification",
                                                  "ForQuestionAnswering",
                                                  "ForMultipleChoice",
                                                  "ForNextSentencePrediction"};

// Read below.
constexpr std::string_view kEncoderKeys[] = {"activation",
                                             "add_cross_attention",
                                             "architectures",
                                             "dim",
                                             "hidden_act",
                                             "hidden_dim",
                                             "hidden_size",
                                             "intermediate_size",
                                             "is_decoder",
                                             "layer_norm_eps",
                                             "max_position_embeddings",
                                             "model_type",
                                             "n_heads",
                                             "n_layers",
                                             "num_attention_heads",
                                             "num_hidden_layers",
                                             "pad_token_id",
                                             "position_embedding_type",
                                             "quantization_config",
                                             "type_vocab_size",
                                             "vocab_size"};

// Of training, of heads, of tokenizers, of other results, and how numbers are computed but not
// which. A table of sinusoids (DistilBERT) is among the tensors.
constexpr std::string_view kEncoderKeysWithoutEffect[] = {"_attn_implementation",
                                                          "_attn_implementation_autoset",
                                                          "_name_or_path",
                                                          "attention_dropout",
                                                          "attention_probs_dropout_prob",
                                                          "bos_token_id",
                                                          "chunk_size_feed_forward",
                                                          "classifier_dropout",
                                                          "cross_attention_hidden_size",
                                                          "dropout",
                                                          "dtype",
                                                          "eos_token_id",
                                                          "gradient_checkpointing",
                                                          "hidden_dropout_prob",
                                                          "id2label",
                                                          "initializer_range",
                                                          "is_encoder_decoder",
                                                          "label2id",
                                                          "output_attentions",
                                                          "output_hidden_states",
                                                          "output_past",
                                                          "problem_type",
                                                          "qa_dropout",
                                                          "return_dict",
                                                          "seq_classif_dropout",
                                                          "sinusoidal_pos_embds",
                                                          "task_specific_params",
                                                          "tie_weights_",
                                                          "tie_word_embeddings",
                                                          "torch_dtype",
                                                          "transformers_version",
                                                          "use_cache"};

// They change outputs, unless they are empty.
constexpr std::string_view kLackingEncoderKeys[] = {"auto_map", "pruned_heads"};

// configuration_bert.py, configuration_roberta.py.
EncoderSpec read_bert(const ConfigObject& config, bool is_roberta) {
  config.require("is_decoder", false, false);
  config.require("add_cross_attention", false, false);
  if (config.text("position_embedding_type", "absolute") != "absolute")
    config.reject("position_embedding_type", "\"absolute\"");
  EncoderSpec spec{.family = is_roberta ? EncoderFamily::roberta : EncoderFamily::bert,
                   .vocabulary = config.integer("vocab_size", is_roberta ? 50265 : 30522),
                   .positions = config.integer("max_position_embeddings", 512),
                   .types = config.integer("type_vocab_size", 2),
                   .layers = config.integer("num_hidden_layers", 12),
                   .heads = config.integer("num_attention_heads", 12),
                   .features = config.integer("hidden_size", 768),
                   .hidden_features = config.integer("intermediate_size", 3072),
                   .norm_epsilon = config.number("layer_norm_eps", 1e-12)};
  spec.activation = read_activation(config, "hidden_act", "gelu");
  // Places begin behind that of padding (modeling_roberta.py). An id beyond the places leaves none.
  if (is_roberta)
    spec.first_position = std::min(config.integer("pad_token_id", 1, 0), spec.positions - 1) + 1;
  return spec;
}

// configuration_distilbert.py.
EncoderSpec read_distilbert(const ConfigObject& config) {
  EncoderSpec spec{.family = EncoderFamily::distilbert,
                   .vocabulary = config.integer("vocab_size", 30522),
                   .positions = config.integer("max_position_embeddings", 512),
                   .layers = config.integer("n_layers", 6),
                   .heads = config.integer("n_heads", 12),
                   .features = config.integer("dim", 768),
                   .hidden_features = config.integer("hidden_dim", 4 * 768)};
  spec.activation = read_activation(config, "activation", "gelu");
  return spec;
}

// The encoder of each class is that of the family.
void check_encoder_classes(const nlohmann::json& config, EncoderFamily family,
                           const std::string& file) {
  const auto classes = config.find("architectures");
  if (classes == config.end() || classes->is_null()) return;
  const auto is_text = [](const nlohmann::json& one) { return one.is_string(); };
  if (!classes->is_array() || !std::ranges::all_of(*classes, is_text))
    throw Error(ErrorCode::format, path_text(file) + ": architectures: expected a list of texts");
  const std::string name = kEncoderClassNames[static_cast<int>(family)];
  for (const nlohmann::json& one : *classes) {
    const auto& given = one.get_ref<const std::string&>();
    const auto is_known = [&](std::string_view end) { return given == name + std::string(end); };
    if (std::ranges::any_of(kEncoderClassEnds, is_known)) continue;
    std::string known;
    for (const std::string_view end : kEncoderClassEnds)
      known += (known.empty() ? "" : ", ") + name + std::string(end);
    throw Error(ErrorCode::unsupported, path_text(file) + ": architectures: expected one of " +
                                            known + ", got " + in_quotes(given));
  }
}

// The keys that are neither read nor known to change no output.
std::vector<std::string> unknown_encoder_keys(const nlohmann::json& config,
                                              const std::string& file) {
  std::vector<std::string> unknown;
  for (const auto& item : config.items()) {
    const std::string& key = item.key();
    const auto is_key = [&](std::string_view known) { return key == known; };
    if (std::ranges::any_of(kLackingEncoderKeys, is_key)) {
      if (!item.value().empty())  // null is empty, too
        throw Error(ErrorCode::unsupported,
                    path_text(file) + ": " + key + " is not supported; expected none");
    } else if (std::ranges::none_of(kEncoderKeys, is_key) &&
               std::ranges::none_of(kEncoderKeysWithoutEffect, is_key)) {
      unknown.push_back(key);
    }
  }
  return unknown;
}

}  // namespace

EncoderSpec load_encoder_spec(const std::string& folder) {
  const std::string file = folder + "/config.json";
  return read_encoder_spec(checkpoint::read_config_text(file), file);
}

EncoderSpec read_encoder_spec(std::string_view text, const std::string& file) {
  const nlohmann::json json = checkpoint::parse_config(text, file);
  const ConfigObject config(json, file);
  if (config.has("quantization_config"))
    config.reject("quantization_config", "none: quantised weights are not read");
  const std::string type = config.text("model_type", "");
  EncoderSpec spec;
  if (type == "bert" || type == "roberta")
    spec = read_bert(config, type == "roberta");
  else if (type == "distilbert")
    spec = read_distilbert(config);
  else
    config.reject("model_type", "bert, roberta or distilbert");
  if (spec.norm_epsilon < 0 || !std::isfinite(spec.norm_epsilon))
    throw Error(ErrorCode::format, path_text(file) + ": layer_norm_eps: expected 0 or more, got " +
                                       std::to_string(spec.norm_epsilon));
  if (spec.features % spec.heads != 0)
    throw Error(ErrorCode::format, path_text(file) + ": " + std::to_string(spec.features) +
                                       " features and " + std::to_string(spec.heads) +
                                       " heads; expected heads that divide the features");
  if (spec.longest() < 1)
    throw Error(ErrorCode::format, path_text(file) + ": pad_token_id leaves no position");
  check_encoder_classes(json, spec.family, file);
  spec.ignored_keys = unknown_encoder_keys(json, file);
  return spec;
}

}  // namespace rapt::model

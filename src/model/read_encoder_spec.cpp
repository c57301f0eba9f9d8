// config.json of BERT, RoBERTa and DistilBERT. Absent keys have the defaults of transformers'
// classes.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/activation_names.h"
#include "io/quoted.h"
#include "rapt/model/encoder_model.h"

namespace rapt::model {
namespace {

using checkpoint::ConfigObject;

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

}  // namespace

EncoderSpec load_encoder_spec(const std::string& folder) {
  const std::string file = folder + "/config.json";
  const nlohmann::json json = checkpoint::parse_config(checkpoint::read_config_text(file), file);
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
  return spec;
}

}  // namespace rapt::model

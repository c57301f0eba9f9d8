// The tensors of an encoder by transformers' names.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "model/stored_weights.h"
#include "rapt/model/encoder_model.h"

namespace rapt::model {
namespace {

// Names of one block's parts, behind "<blocks><i>.".
struct BlockNames {
  const char *blocks, *query, *key, *value, *output, *attention_norm, *widen, *narrow,
      *network_norm;
};
constexpr BlockNames kBertNames = {
    "encoder.layer.",       "attention.self.query",   "attention.self.key",
    "attention.self.value", "attention.output.dense", "attention.output.LayerNorm",
    "intermediate.dense",   "output.dense",           "output.LayerNorm"};
constexpr BlockNames kDistilbertNames = {
    "transformer.layer.", "attention.q_lin",   "attention.k_lin",
    "attention.v_lin",    "attention.out_lin", "sa_layer_norm",
    "ffn.lin1",           "ffn.lin2",          "output_layer_norm"};

// Tensors that the encoder itself does not have: heads, and a buffer of positions.
constexpr std::string_view kIgnored[] = {
    "pooler.",         "cls.",        "lm_head.", "classifier.",
    "pre_classifier.", "qa_outputs.", "vocab_",   "embeddings.position_ids"};

// `prefix`: before the names of models with a head.
bool is_ignored_of_encoder(std::string_view name, std::string_view prefix) {
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  const auto begins = [&](std::string_view known) { return name.starts_with(known); };
  return std::ranges::any_of(kIgnored, begins);
}

// Models with a head have the name of the family before all others.
std::string encoder_prefix(EncoderFamily family) {
  return std::string(kEncoderFamilyNames[static_cast<int>(family)]) + ".";
}

class EncoderLoader {
 public:
  explicit EncoderLoader(const std::string& folder)
      : spec_(load_encoder_spec(folder)), weights_(folder, encoder_prefix(spec_.family), false) {}

  EncoderModel load() {
    const EncoderSpec& spec = spec_;
    const int64_t features = spec.features;
    const bool distilled = spec.family == EncoderFamily::distilbert;
    model_.tokens = take("embeddings.word_embeddings.weight", {spec.vocabulary, features});
    model_.places = take("embeddings.position_embeddings.weight", {spec.positions, features});
    if (spec.types > 0)
      model_.types = take("embeddings.token_type_embeddings.weight", {spec.types, features});
    model_.embedding_norm = norm("embeddings.LayerNorm");
    const BlockNames& names = distilled ? kDistilbertNames : kBertNames;
    for (int64_t i = 0; i < spec.layers; ++i)
      add_block(names, names.blocks + std::to_string(i) + ".");
    const std::string prefix = encoder_prefix(spec.family);
    weights_.refuse_additional(
        [&](std::string_view name) { return is_ignored_of_encoder(name, prefix); });
    model_.spec = std::move(spec_);
    return std::move(model_);
  }

 private:
  void add_block(const BlockNames& names, const std::string& block) {
    const int64_t features = spec_.features, hidden = spec_.hidden_features;
    EncoderBlock& made = model_.blocks.emplace_back();
    made.query = linear(block + names.query, features, features);
    made.key = linear(block + names.key, features, features);
    made.value = linear(block + names.value, features, features);
    made.output = linear(block + names.output, features, features);
    made.attention_norm = norm(block + names.attention_norm);
    made.widen = linear(block + names.widen, hidden, features);
    made.narrow = linear(block + names.narrow, features, hidden);
    made.network_norm = norm(block + names.network_norm);
  }

  StoredLinear linear(const std::string& name, int64_t out, int64_t in) {
    return {take(name + ".weight", {out, in}), take(name + ".bias", {out})};
  }

  // A few numbers, which are copied.
  nn::LayerNorm norm(const std::string& name) {
    const int64_t features = spec_.features;
    nn::LayerNorm made = nn::make_layer_norm(features, {.epsilon = spec_.norm_epsilon});
    // Early checkpoints of BERT have TensorFlow's names, as bert-base-uncased does.
    const bool early = !weights_.has(name + ".weight") && weights_.has(name + ".gamma");
    for (const auto& [part, parameter] : {std::pair{early ? ".gamma" : ".weight", &made.weight},
                                          std::pair{early ? ".beta" : ".bias", &made.bias}}) {
      parameter->gradient = {};
      const StoredTensor& stored = weights_.find(name + part, {features});
      model_.loaded.push_back(rapt::load(stored));
      copy_numbers(stored, 0, parameter->value.values<float>());
    }
    return made;
  }

  TensorView take(const std::string& name, std::initializer_list<int64_t> shape) {
    model_.loaded.push_back(rapt::load(weights_.find(name, shape)));
    return model_.loaded.back().view();
  }

  EncoderSpec spec_;
  StoredWeights weights_;
  EncoderModel model_;
};

}  // namespace

EncoderModel load_encoder(const std::string& folder) { return EncoderLoader(folder).load(); }

}  // namespace rapt::model

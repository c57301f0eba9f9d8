// The tensors of an encoder by transformers' names.
#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <tuple>
#include <utility>

#include "checkpoint/open_tensors.h"
#include "io/quoted.h"
#include "rapt/float16.h"
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

// A name is not cut: its end says which tensor it is.
std::string quoted_name(const std::string& name) { return "'" + escaped(name) + "'"; }

std::string shape_text(const std::vector<int64_t>& shape) {
  return to_string(Shape(shape.data(), shape.size()));
}

class EncoderLoader {
 public:
  explicit EncoderLoader(const std::string& folder) {
    model_.spec = load_encoder_spec(folder);
    std::tie(file_, path_) = checkpoint::open_tensors(folder);
    // Models with a head have the name of the family before all others.
    const std::string family =
        std::string(kEncoderFamilyNames[static_cast<int>(model_.spec.family)]) + ".";
    const bool has_prefix = std::ranges::any_of(
        file_.tensors, [&](const StoredTensor& t) { return t.name.starts_with(family); });
    if (has_prefix) prefix_ = family;
    used_.resize(file_.tensors.size());
  }

  EncoderModel load() {
    const EncoderSpec& spec = model_.spec;
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
    refuse_additional();
    return std::move(model_);
  }

 private:
  void add_block(const BlockNames& names, const std::string& block) {
    const int64_t features = model_.spec.features, hidden = model_.spec.hidden_features;
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
    const int64_t features = model_.spec.features;
    nn::LayerNorm made = nn::make_layer_norm(features, {.epsilon = model_.spec.norm_epsilon});
    // Early checkpoints of BERT have TensorFlow's names, as bert-base-uncased does.
    const bool early =
        !file_.find(prefix_ + name + ".weight") && file_.find(prefix_ + name + ".gamma");
    for (const auto& [part, parameter] : {std::pair{early ? ".gamma" : ".weight", &made.weight},
                                          std::pair{early ? ".beta" : ".bias", &made.bias}}) {
      const TensorView stored = take(name + part, {features});
      parameter->gradient = {};
      const std::span<float> values = parameter->value.values<float>();
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(element(stored, static_cast<int64_t>(i)));
    }
    return made;
  }

  static double element(const TensorView& view, int64_t i) {
    switch (view.dtype) {
      case DType::f32:
        return static_cast<const float*>(view.data)[i];
      case DType::bf16:
        return static_cast<float>(static_cast<const BFloat16*>(view.data)[i]);
      default:
        return static_cast<float>(static_cast<const Float16*>(view.data)[i]);
    }
  }

  TensorView take(const std::string& name, const std::vector<int64_t>& shape) {
    const StoredTensor* const stored = file_.find(prefix_ + name);
    if (stored == nullptr) fail("the tensor " + quoted_name(prefix_ + name) + " is missing");
    if (stored->shape != shape)
      fail(quoted_name(stored->name) + ": expected the shape " + shape_text(shape) +
           " by config.json, got " + shape_text(stored->shape));
    if (stored->dtype != DType::f32 && stored->dtype != DType::bf16 && stored->dtype != DType::f16)
      fail(quoted_name(stored->name) + ": expected F32, BF16 or F16, got " + stored->type);
    used_[static_cast<size_t>(stored - file_.tensors.data())] = true;
    model_.loaded.push_back(rapt::load(*stored));
    return model_.loaded.back().view();
  }

  void refuse_additional() const {
    for (size_t i = 0; i < used_.size(); ++i) {
      std::string_view name = file_.tensors[i].name;
      if (name.starts_with(prefix_)) name.remove_prefix(prefix_.size());
      const auto begins = [&](std::string_view known) { return name.starts_with(known); };
      if (!used_[i] && std::ranges::none_of(kIgnored, begins))
        fail("the model has no tensor " + quoted_name(file_.tensors[i].name) +
             "; expected the config of these tensors");
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::format, path_text(path_) + ": " + what);
  }

  EncoderModel model_;
  TensorFile file_;
  std::string path_, prefix_;
  std::vector<bool> used_;
};

}  // namespace

EncoderModel load_encoder(const std::string& folder) { return EncoderLoader(folder).load(); }

}  // namespace rapt::model

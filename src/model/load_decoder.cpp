// The tensors of a decoder by transformers' names.
#include <algorithm>
#include <string>
#include <utility>

#include "model/stored_weights.h"
#include "rapt/model/decoder_model.h"

namespace rapt::model {
namespace {

constexpr std::string_view kHead = "lm_head.weight";
// Ends of names of tensors that hold nothing learned.
constexpr std::string_view kBuffers[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};

bool is_ignored_of_decoder(std::string_view name) {
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  return name == kHead || std::ranges::any_of(kBuffers, ends);
}

// Names of the parts outside and inside of blocks.
struct DecoderNames {
  const char *prefix, *tokens, *norm, *blocks, *attention_norm, *network_norm;
};
constexpr DecoderNames kGpt2Names = {"transformer.", "wte.weight", "ln_f", "h.", "ln_1", "ln_2"};
constexpr DecoderNames kLlamaNames = {"model.",  "embed_tokens.weight", "norm",
                                      "layers.", "input_layernorm",     "post_attention_layernorm"};
constexpr DecoderNames kGemma2Names = {
    "model.",  "embed_tokens.weight", "norm",
    "layers.", "input_layernorm",     "pre_feedforward_layernorm"};

const DecoderNames& names_of(DecoderFamily family) {
  if (family == DecoderFamily::gpt2) return kGpt2Names;
  return family == DecoderFamily::gemma2 ? kGemma2Names : kLlamaNames;
}

// Walks over all tensors of a model: to count them, or to map and copy them.
class DecoderLoader {
 public:
  DecoderLoader(const std::string& folder, DType computed, bool counts)
      : counts_(counts),
        computed_(checked(computed)),
        spec_(load_decoder_spec(folder)),
        names_(names_of(spec_.family)),
        weights_(folder, names_.prefix, true) {}

  void walk() {
    const StoredTensor& tokens = weights_.find(names_.tokens, {spec_.vocabulary, spec_.features});
    if (tokens.dtype && *tokens.dtype != DType::f64) info_.dtype = *tokens.dtype;
    if (computed_ == DType::bf16) info_.dtype = computed_;
    model_.tokens = matrix(tokens);
    if (spec_.is_gpt2())
      model_.places = addend(weights_.find("wpe.weight", {spec_.context, spec_.features}));
    for (int64_t i = 0; i < spec_.layers; ++i) add_block(names_.blocks + std::to_string(i) + ".");
    model_.norm = norm(names_.norm, spec_.features);
    model_.head = model_.tokens;
    if (!spec_.tied_head)
      model_.head =
          matrix(weights_.find_whole(std::string(kHead), {spec_.vocabulary, spec_.features}));
    weights_.refuse_additional(is_ignored_of_decoder);
  }

  DecoderModel model() {
    model_.computed = computed_;
    model_.spec = std::move(spec_);
    return std::move(model_);
  }

  DecoderInfo info() {
    info_.spec = std::move(spec_);
    return std::move(info_);
  }

 private:
  int64_t inner() const { return spec_.heads * spec_.head_dim; }
  int64_t kv() const { return spec_.kv_heads * spec_.head_dim; }

  void add_block(const std::string& block) {
    DecoderBlock& made = model_.blocks.emplace_back();
    made.attention_norm = norm(block + names_.attention_norm, spec_.features);
    made.network_norm = norm(block + names_.network_norm, spec_.features);
    if (spec_.is_gpt2()) return add_gpt2_parts(block, made);
    if (spec_.norms_behind) {
      made.attention_norm_behind = norm(block + "post_attention_layernorm", spec_.features);
      made.network_norm_behind = norm(block + "post_feedforward_layernorm", spec_.features);
    }
    const std::string attention = block + "self_attn.", network = block + "mlp.";
    made.query = linear(attention + "q_proj", inner(), spec_.features, spec_.input_bias);
    made.key = linear(attention + "k_proj", kv(), spec_.features, spec_.input_bias);
    made.value = linear(attention + "v_proj", kv(), spec_.features, spec_.input_bias);
    made.output = linear(attention + "o_proj", spec_.features, inner(), spec_.output_bias);
    if (spec_.head_norms) {
      made.query_norm = norm(attention + "q_norm", spec_.head_dim);
      made.key_norm = norm(attention + "k_norm", spec_.head_dim);
    }
    const int64_t hidden = spec_.hidden_features;
    made.gate = linear(network + "gate_proj", hidden, spec_.features, spec_.network_bias);
    made.widen = linear(network + "up_proj", hidden, spec_.features, spec_.network_bias);
    made.narrow = linear(network + "down_proj", spec_.features, hidden, spec_.network_bias);
  }

  // Matrices are stored transposed; query, key and value lie side by side.
  void add_gpt2_parts(const std::string& block, DecoderBlock& made) {
    const int64_t features = spec_.features, hidden = spec_.hidden_features;
    const StoredLinear all = transposed_linear(block + "attn.c_attn", 3 * features, features);
    StoredLinear* const parts[] = {&made.query, &made.key, &made.value};
    for (int64_t i = 0; !counts_ && i < 3; ++i) {
      parts[i]->weight = all.weight.slice(0, i * features, (i + 1) * features);
      parts[i]->bias = all.bias.slice(0, i * features, (i + 1) * features);
    }
    made.output = transposed_linear(block + "attn.c_proj", features, features);
    made.widen = transposed_linear(block + "mlp.c_fc", hidden, features);
    made.narrow = transposed_linear(block + "mlp.c_proj", features, hidden);
  }

  StoredLinear linear(const std::string& name, int64_t out, int64_t in, bool bias) {
    StoredLinear made;
    made.weight = matrix(weights_.find(name + ".weight", {out, in}));
    if (bias) made.bias = addend(weights_.find(name + ".bias", {out}));
    return made;
  }

  // A matrix [in, out], whose product reads it where it lies.
  StoredLinear transposed_linear(const std::string& name, int64_t out, int64_t in) {
    StoredLinear made;
    const TensorView stored = matrix(weights_.find(name + ".weight", {in, out}));
    if (!counts_) made.weight = stored.transposed();
    made.bias = addend(weights_.find(name + ".bias", {out}));
    return made;
  }

  // A factor of products, or numbers that are added in f32 and therefore not rounded.
  TensorView matrix(const StoredTensor& stored) { return weight(stored, computed_); }
  TensorView addend(const StoredTensor& stored) { return weight(stored, DType::f32); }

  TensorView weight(const StoredTensor& stored, DType computed) {
    if (!counts_) return keep(load_weight(stored, computed));
    count(stored, copied_bytes(stored, computed));
    return {};
  }

  // A few numbers, which are copied.
  nn::Norm norm(const std::string& name, int64_t features) {
    const bool rms = !spec_.is_gpt2();
    const StoredTensor& weight = weights_.find(name + ".weight", {features});
    const StoredTensor* const bias = rms ? nullptr : &weights_.find(name + ".bias", {features});
    nn::Norm made;
    for (const StoredTensor* const part : {&weight, bias})
      if (counts_ && part) count(*part, features * size_of(DType::f32));
    if (counts_) return made;
    made = nn::make_norm(features, {.rms = rms, .epsilon = spec_.norm_epsilon});
    nn::freeze(made);
    const float plus = spec_.norm_adds_one ? 1 : 0;
    if (rms) {
      copy_numbers(weight, plus, std::get<nn::RmsNorm>(made.kind).weight.value.values<float>());
      return made;
    }
    nn::LayerNorm& layer = std::get<nn::LayerNorm>(made.kind);
    copy_numbers(weight, 0, layer.weight.value.values<float>());
    copy_numbers(*bias, 0, layer.bias.value.values<float>());
    return made;
  }

  // `copied`: bytes of the copy; 0: the tensor is mapped.
  void count(const StoredTensor& stored, int64_t copied) {
    info_.parameters += element_count(Shape(stored.shape.data(), stored.shape.size()));
    (copied > 0 ? info_.copied_bytes : info_.mapped_bytes) += copied > 0 ? copied : stored.bytes;
  }

  TensorView keep(LoadedTensor loaded) {
    model_.loaded.push_back(std::move(loaded));
    return model_.loaded.back().view();
  }

  static DType checked(DType computed) {
    if (computed == DType::f32 || computed == DType::bf16) return computed;
    throw Error(ErrorCode::dtype,
                std::string("a decoder is computed in f32 or bf16, got ") + name_of(computed));
  }

  const bool counts_;
  const DType computed_;
  DecoderSpec spec_;
  const DecoderNames& names_;
  StoredWeights weights_;
  DecoderModel model_;
  DecoderInfo info_;
};

}  // namespace

DecoderInfo load_decoder_info(const std::string& folder, DType computed) {
  DecoderLoader loader(folder, computed, true);
  loader.walk();
  return loader.info();
}

DecoderModel load_decoder(const std::string& folder, DType computed) {
  DecoderLoader loader(folder, computed, false);
  loader.walk();
  return loader.model();
}

}  // namespace rapt::model

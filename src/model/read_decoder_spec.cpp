// config.json of decoders. Absent keys have the defaults of transformers' classes.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "checkpoint/activation_names.h"
#include "checkpoint/rotary_config.h"
#include "io/quoted.h"
#include "model/decoder_keys.h"
#include "rapt/model/decoder_model.h"

namespace rapt::model {
namespace {

using checkpoint::ConfigObject;

using Names = std::span<const char* const>;

constexpr const char* kSliding = "sliding_attention";

// What a family's class of transformers has for absent keys. head_dim 0: hidden_size / heads;
// kv_heads 0: heads.
struct DecoderDefaults {
  DecoderFamily family;
  int64_t vocabulary, context, layers, heads, kv_heads, features, head_dim, hidden_features;
  bool tied_head;
};
// configuration_llama.py, ..., configuration_gemma2.py.
constexpr DecoderDefaults kDecoderDefaults[] = {
    {DecoderFamily::llama, 32000, 2048, 32, 32, 0, 4096, 0, 11008, false},
    {DecoderFamily::mistral, 32000, 131072, 32, 32, 8, 4096, 0, 14336, false},
    {DecoderFamily::qwen2, 151936, 32768, 32, 32, 32, 4096, 0, 22016, false},
    {DecoderFamily::qwen3, 151936, 32768, 32, 32, 32, 4096, 128, 22016, false},
    {DecoderFamily::gemma2, 256000, 8192, 26, 8, 4, 2304, 256, 9216, true}};

// A class of transformers whose tensors are those of a family, with a head and without.
struct DecoderClasses {
  const char *with_head, *without;
};
constexpr DecoderClasses kDecoderClasses[] = {
    {"GPT2LMHeadModel", "GPT2Model"},       {"LlamaForCausalLM", "LlamaModel"},
    {"MistralForCausalLM", "MistralModel"}, {"Qwen2ForCausalLM", "Qwen2Model"},
    {"Qwen3ForCausalLM", "Qwen3Model"},     {"Gemma2ForCausalLM", "Gemma2Model"}};

// A size, within the limit.
int64_t decoder_size(const ConfigObject& config, const char* key, int64_t otherwise,
                     int64_t most = kMostDecoderSize) {
  const int64_t size = config.integer(key, otherwise);
  if (size > most) config.reject(key, "at most " + std::to_string(most));
  return size;
}

// A number above 0; null: none, as 0.
double cap_or_none(const ConfigObject& config, const char* key, double otherwise) {
  if (config.is_null(key)) return 0;
  const double cap = config.number(key, otherwise);
  if (!(cap > 0 && std::isfinite(cap))) config.reject(key, "a finite number above 0, or null");
  return cap;
}

void check_epsilon(const ConfigObject& config, const char* key, double epsilon) {
  if (!(epsilon >= 0 && std::isfinite(epsilon))) config.reject(key, "a finite number, 0 or more");
}

// configuration_gpt2.py.
DecoderSpec read_gpt2_spec(const ConfigObject& config) {
  config.require("scale_attn_weights", true, true);
  config.require("scale_attn_by_inverse_layer_idx", false, false);
  config.require("add_cross_attention", false, false);
  DecoderSpec spec{.family = DecoderFamily::gpt2,
                   .vocabulary = decoder_size(config, "vocab_size", 50257),
                   .context = decoder_size(config, "n_positions", 1024),
                   .layers = decoder_size(config, "n_layer", 12, kMostDecoderLayers),
                   .heads = decoder_size(config, "n_head", 12),
                   .features = decoder_size(config, "n_embd", 768)};
  if (spec.features % spec.heads != 0)
    config.reject("n_head", "heads that divide n_embd " + std::to_string(spec.features));
  spec.kv_heads = spec.heads;
  spec.head_dim = spec.features / spec.heads;
  const int64_t inner =
      decoder_size(config, "n_inner", std::min(4 * spec.features, kMostDecoderSize));
  spec.hidden_features = inner;
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  spec.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  check_epsilon(config, "layer_norm_epsilon", spec.norm_epsilon);
  spec.input_bias = spec.output_bias = spec.network_bias = true;
  spec.tied_head = config.boolean("tie_word_embeddings", true);
  spec.windows.assign(static_cast<size_t>(spec.layers), 0);
  return spec;
}

// The window of layers that have one; 0: there is none.
int64_t read_window(const ConfigObject& config) {
  if (config.is_null("sliding_window")) return 0;
  return decoder_size(config, "sliding_window", 4096);
}

// The windows of all layers: of mistral one, of the others as layer_types says, or, without it, by
// the number of the layer.
void read_windows(const ConfigObject& config, DecoderSpec& spec) {
  const bool mistral = spec.family == DecoderFamily::mistral;
  const bool gemma2 = spec.family == DecoderFamily::gemma2;
  const bool qwen = spec.family == DecoderFamily::qwen2 || spec.family == DecoderFamily::qwen3;
  int64_t window = 0;
  if (mistral || gemma2 || (qwen && config.boolean("use_sliding_window", false)))
    window = read_window(config);
  const int64_t first = config.integer("max_window_layers", 28, 0);
  const std::vector<std::string> types = config.texts("layer_types");
  if (!types.empty() && std::ssize(types) != spec.layers)
    config.reject("layer_types",
                  "a type for each of the " + std::to_string(spec.layers) + " layers");
  for (int64_t i = 0; i < spec.layers; ++i) {
    bool slides = mistral || (gemma2 && i % 2 == 0) || (qwen && i >= first);
    if (!types.empty()) {
      const std::string& type = types[static_cast<size_t>(i)];
      if (type != kSliding && type != "full_attention")
        config.reject("layer_types", "full_attention and sliding_attention alone");
      const bool typed = type == kSliding;
      // Classes that do not read the key compute what they always do.
      if (!gemma2 && !qwen && typed != (slides && window > 0))
        config.reject("layer_types", "the layers that this model has");
      if (typed && window == 0)
        config.reject("layer_types", "full_attention alone, or a sliding_window that is used");
      slides = typed;
    }
    spec.windows.push_back(slides ? window : 0);
  }
}

void read_gemma2_parts(const ConfigObject& config, DecoderSpec& spec) {
  config.require("use_bidirectional_attention", false, false);
  spec.norm_adds_one = spec.norms_behind = true;
  const double scalar = config.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0 && std::isfinite(scalar)))
    config.reject("query_pre_attn_scalar", "a finite number above 0");
  spec.score_scale = 1 / std::sqrt(scalar);
  spec.score_cap = cap_or_none(config, "attn_logit_softcapping", 50);
  spec.logit_cap = cap_or_none(config, "final_logit_softcapping", 30);
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.features));
}

// Heads that divide each other, of an even width.
void read_heads(const ConfigObject& config, const DecoderDefaults& defaults, DecoderSpec& spec) {
  const int64_t default_kv = config.is_null("num_key_value_heads") || defaults.kv_heads == 0
                                 ? spec.heads
                                 : defaults.kv_heads;
  spec.kv_heads = decoder_size(config, "num_key_value_heads", default_kv);
  if (spec.heads % spec.kv_heads != 0)
    config.reject("num_key_value_heads",
                  "a divisor of the heads, which are " + std::to_string(spec.heads));
  const int64_t head_dim = defaults.head_dim > 0 ? defaults.head_dim : spec.features / spec.heads;
  if (!config.has("head_dim") && defaults.head_dim == 0 && spec.features % spec.heads != 0)
    config.reject("num_attention_heads", "heads that divide hidden_size " +
                                             std::to_string(spec.features) + ", or a head_dim");
  spec.head_dim = decoder_size(config, "head_dim", head_dim);
  if (spec.head_dim % 2 != 0) config.reject("head_dim", "an even number");
}

// The embedding of a config. Its parameters are checked without the width of a head, which the
// tensors have not confirmed.
Rotary read_decoder_rotary(const ConfigObject& config, int64_t context, const std::string& file) {
  const Rotary rotary = checkpoint::read_rotary(config, context, true);
  try {
    rotary_frequencies(rotary, 2);
  } catch (const Error& error) {
    const char* key = "rope_theta";
    for (const char* const holder : {"rope_parameters", "rope_scaling"})
      if (config.has(holder)) key = holder;
    throw Error(ErrorCode::format, path_text(file) + ": " + key + ": " + error.what());
  }
  return rotary;
}

DecoderSpec read_rotary_spec(const ConfigObject& config, const DecoderDefaults& defaults,
                             const std::string& file) {
  DecoderSpec spec{
      .family = defaults.family,
      .vocabulary = decoder_size(config, "vocab_size", defaults.vocabulary),
      .context = decoder_size(config, "max_position_embeddings", defaults.context),
      .layers = decoder_size(config, "num_hidden_layers", defaults.layers, kMostDecoderLayers),
      .heads = decoder_size(config, "num_attention_heads", defaults.heads),
      .features = decoder_size(config, "hidden_size", defaults.features)};
  const bool llama = spec.family == DecoderFamily::llama;
  const bool qwen2 = spec.family == DecoderFamily::qwen2;
  const bool gemma2 = spec.family == DecoderFamily::gemma2;
  read_heads(config, defaults, spec);
  spec.hidden_features = decoder_size(config, "intermediate_size", defaults.hidden_features);
  spec.activation = gemma2 ? read_activation(config, "hidden_activation", "gelu_pytorch_tanh")
                           : read_activation(config, "hidden_act", "silu");
  spec.norm_epsilon = config.number("rms_norm_eps", 1e-6);
  check_epsilon(config, "rms_norm_eps", spec.norm_epsilon);
  spec.tied_head = config.boolean("tie_word_embeddings", defaults.tied_head);
  // mistral has none, and qwen2 has those of query, key and value, whatever the config says.
  const bool has_key = llama || gemma2 || spec.family == DecoderFamily::qwen3;
  spec.output_bias = has_key && config.boolean("attention_bias", false);
  spec.input_bias = qwen2 || spec.output_bias;
  spec.network_bias = llama && config.boolean("mlp_bias", false);
  spec.head_norms = spec.family == DecoderFamily::qwen3;
  spec.rotary = read_decoder_rotary(config, spec.context, file);
  if (gemma2) read_gemma2_parts(config, spec);
  read_windows(config, spec);
  return spec;
}

// Throws for a model_type that is none of `known`. Names of mixtures of experts are told as such.
[[noreturn]] void reject_type(const ConfigObject& config, std::initializer_list<Names> known) {
  const std::string type = config.text("model_type", "");
  const bool mixture = type == "mixtral" || type.find("moe") != std::string::npos;
  std::string expected =
      mixture ? "a dense model, because mixtures of experts are not read: " : "one of ";
  const size_t begin = expected.size();
  for (const Names names : known)
    for (const char* const name : names)
      expected += (expected.size() > begin ? ", " : "") + std::string(name);
  config.reject("model_type", expected);
}

bool is_type(const ConfigObject& config, Names known) {
  return std::ranges::find(known, config.text("model_type", "")) != known.end();
}

DecoderFamily read_family(const ConfigObject& config) {
  const std::string type = config.text("model_type", "");
  const auto* const at = std::ranges::find(kDecoderFamilyNames, type);
  if (at == std::end(kDecoderFamilyNames)) reject_type(config, {kDecoderFamilyNames});
  return static_cast<DecoderFamily>(at - std::begin(kDecoderFamilyNames));
}

void check_class(const ConfigObject& config, DecoderFamily family) {
  const auto& [with_head, without] = kDecoderClasses[static_cast<size_t>(family)];
  for (const std::string& name : config.texts("architectures"))
    if (name != with_head && name != without)
      config.reject("architectures", std::string(with_head) + " or " + without);
}

}  // namespace

bool is_decoder_folder(const std::string& folder) {
  const std::string file = folder + "/config.json";
  const nlohmann::json json = checkpoint::parse_config(checkpoint::read_config_text(file), file);
  const ConfigObject config(json, file);
  if (is_type(config, kDecoderFamilyNames)) return true;
  if (!is_type(config, kEncoderFamilyNames))
    reject_type(config, {kEncoderFamilyNames, kDecoderFamilyNames});
  return false;
}

DecoderSpec load_decoder_spec(const std::string& folder) {
  const std::string file = folder + "/config.json";
  return read_decoder_spec(checkpoint::read_config_text(file), file);
}

DecoderSpec read_decoder_spec(std::string_view text, const std::string& file) {
  const nlohmann::json json = checkpoint::parse_config(text, file);
  const ConfigObject config(json, file);
  const DecoderFamily family = read_family(config);
  refuse_unsupported_keys(config);
  check_class(config, family);
  DecoderSpec spec =
      family == DecoderFamily::gpt2
          ? read_gpt2_spec(config)
          : read_rotary_spec(config, kDecoderDefaults[static_cast<size_t>(family) - 1], file);
  spec.ignored_keys = unknown_keys(config);
  return spec;
}

}  // namespace rapt::model

#include "rapt/checkpoint/model_tensors.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "rapt/nn/state_dict.h"

namespace rapt::checkpoint {
namespace {

using nn::LanguageModelLayout;

constexpr std::string_view kHeadName = "lm_head.weight";

// What stands before all names but that of the head.
std::string_view prefix_of(const nn::LanguageModel& model) {
  return model.spec.layout == LanguageModelLayout::gpt2 ? "transformer." : "model.";
}

// Collects the parameters of a model by name. `Model` may be const.
template <class Model>
class NameTable {
 public:
  explicit NameTable(Model& model) : model_(model), prefix_(prefix_of(model)) {}

  std::vector<NamedTensor> operator()() {
    const bool gpt2 = model_.spec.layout == LanguageModelLayout::gpt2;
    add(gpt2 ? "wte.weight" : "embed_tokens.weight", model_.embedding.weight);
    if (gpt2) add("wpe.weight", model_.positions.weight);
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      const std::string within = (gpt2 ? "h." : "layers.") + std::to_string(i) + ".";
      if (gpt2)
        add_gpt2_layer(within, model_.layers[i]);
      else
        add_llama_layer(within, model_.layers[i]);
    }
    add_norm(gpt2 ? "ln_f" : "norm", model_.norm);
    if (model_.head.defined()) all_.push_back({std::string(kHeadName), model_.head.value.view()});
    return std::move(all_);
  }

 private:
  void add_view(const std::string& name, const TensorView& view) {
    all_.push_back({std::string(prefix_) + name, view});
  }
  template <class Parameter>
  void add(const std::string& name, Parameter& parameter) {
    if (parameter.defined()) add_view(name, parameter.value.view());
  }

  template <class Norm>
  void add_norm(const std::string& name, Norm& norm) {
    Norm::members(norm, [&](const char* member, auto& p) { add(name + "." + member, p); });
  }

  // Weights of GPT-2's Conv1D are [in, out].
  template <class Parameter>
  void add_conv1d(const std::string& name, Parameter& weight, Parameter& bias) {
    add_view(name + ".weight", weight.value.view().transposed());
    add(name + ".bias", bias);
  }
  template <class Layer>
  void add_gpt2_layer(const std::string& within, Layer& layer) {
    add_norm(within + "ln_1", layer.norm1);
    add_conv1d(within + "attn.c_attn", layer.self_attn.in_proj_weight,
               layer.self_attn.in_proj_bias);
    add_conv1d(within + "attn.c_proj", layer.self_attn.out_proj.weight,
               layer.self_attn.out_proj.bias);
    add_norm(within + "ln_2", layer.norm2);
    add_conv1d(within + "mlp.c_fc", layer.network.linear1.weight, layer.network.linear1.bias);
    add_conv1d(within + "mlp.c_proj", layer.network.linear2.weight, layer.network.linear2.bias);
  }

  // Rows [begin, end) of a weight and its bias.
  template <class Parameter>
  void add_rows(const std::string& name, Parameter& weight, Parameter& bias, int64_t begin,
                int64_t end) {
    add_view(name + ".weight", weight.value.view().slice(0, begin, end));
    if (bias.defined()) add_view(name + ".bias", bias.value.view().slice(0, begin, end));
  }
  template <class Layer>
  void add_llama_layer(const std::string& within, Layer& layer) {
    auto& attention = layer.self_attn;
    auto& network = layer.network;
    const int64_t inner = attention.inner(), kv = attention.kv(),
                  hidden = network.hidden_features();
    const std::string self = within + "self_attn.", mlp = within + "mlp.";
    auto &weight = attention.in_proj_weight, &bias = attention.in_proj_bias;
    add_norm(within + "input_layernorm", layer.norm1);
    add_rows(self + "q_proj", weight, bias, 0, inner);
    add_rows(self + "k_proj", weight, bias, inner, inner + kv);
    add_rows(self + "v_proj", weight, bias, inner + kv, inner + 2 * kv);
    add(self + "o_proj.weight", attention.out_proj.weight);
    add(self + "o_proj.bias", attention.out_proj.bias);
    if (attention.q_norm) add(self + "q_norm.weight", attention.q_norm->weight);
    if (attention.k_norm) add(self + "k_norm.weight", attention.k_norm->weight);
    add_norm(within + "post_attention_layernorm", layer.norm2);
    add_rows(mlp + "gate_proj", network.linear1.weight, network.linear1.bias, 0, hidden);
    add_rows(mlp + "up_proj", network.linear1.weight, network.linear1.bias, hidden, 2 * hidden);
    add(mlp + "down_proj.weight", network.linear2.weight);
    add(mlp + "down_proj.bias", network.linear2.bias);
  }

  Model& model_;
  std::string_view prefix_;
  std::vector<NamedTensor> all_;
};

// A tensor that holds nothing learned.
bool is_ignored(std::string_view name, const nn::LanguageModel& model) {
  if (name == kHeadName) return !model.head.defined();
  if (model.spec.layout != LanguageModelLayout::gpt2) return name.ends_with(".rotary_emb.inv_freq");
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

}  // namespace

std::vector<NamedTensor> model_tensors(nn::LanguageModel& model) { return NameTable(model)(); }
std::vector<NamedTensor> model_tensors(const nn::LanguageModel& model) {
  return NameTable(model)();
}

void load_model_tensors(nn::LanguageModel& model, const std::vector<NamedTensor>& given) {
  const std::string_view prefix = prefix_of(model);
  const bool prefixed = std::any_of(given.begin(), given.end(), [&](const NamedTensor& tensor) {
    return tensor.name.starts_with(prefix);
  });
  std::vector<nn::NamedView> targets, sources;
  for (const NamedTensor& tensor : model_tensors(model))
    targets.push_back({tensor.name, tensor.view});
  for (const NamedTensor& tensor : given) {
    if (is_ignored(tensor.name, model)) continue;
    const bool whole = prefixed || tensor.name == kHeadName;
    sources.push_back({(whole ? "" : std::string(prefix)) + tensor.name, tensor.view});
  }
  nn::load_tensors(targets, sources);
}

}  // namespace rapt::checkpoint

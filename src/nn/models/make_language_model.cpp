// Makes a LanguageModel: the checks of its spec, its parameters, and their first values.
#include <cmath>
#include <memory>
#include <string>

#include "rapt/nn/init.h"
#include "rapt/nn/language_model.h"

namespace rapt::nn {
namespace {

[[noreturn]] void fail_model(const std::string& message) {
  throw Error(ErrorCode::argument, "LanguageModelSpec: " + message);
}

void check_model_sizes(const LanguageModelSpec& spec) {
  const struct {
    const char* name;
    int64_t value, least;
  } sizes[] = {{"vocabulary", spec.vocabulary, 1}, {"context", spec.context, 1},
               {"layers", spec.layers, 1},         {"heads", spec.heads, 1},
               {"features", spec.features, 1},     {"kv_heads", spec.kv_heads, 0},
               {"head_dim", spec.head_dim, 0},     {"hidden_features", spec.hidden_features, 0}};
  for (const auto& [name, value, least] : sizes)
    if (value < least)
      fail_model(std::string(name) + " is " + std::to_string(value) + "; expected " +
                 std::to_string(least) + " or more");
  for (const double p : {spec.embedding_dropout, spec.attention_dropout, spec.residual_dropout})
    if (!(p >= 0 && p < 1))
      fail_model("a dropout is " + std::to_string(p) + "; expected at least 0, below 1");
  if (!(spec.initializer_range >= 0 && std::isfinite(spec.initializer_range)))
    fail_model("initializer_range is " + std::to_string(spec.initializer_range) +
               "; expected a finite number, 0 or more");
}

// Rejects what a layout does not have.
void check_layout(const LanguageModelSpec& spec) {
  const auto reject = [&](bool wanted, const char* what) {
    if (wanted)
      fail_model(std::string(kLanguageModelLayoutNames[static_cast<int>(spec.layout)]) +
                 " has no " + what);
  };
  const bool gpt2 = spec.layout == LanguageModelLayout::gpt2;
  reject(gpt2 && spec.kv_heads != spec.heads, "kv_heads other than heads");
  reject(gpt2 && spec.head_dim * spec.heads != spec.features, "head_dim of its own");
  reject(spec.layout == LanguageModelLayout::qwen3 && spec.network_bias, "network_bias");
  reject(!gpt2 && spec.embedding_dropout != 0, "embedding_dropout");
  reject(!gpt2 && spec.residual_dropout != 0, "residual_dropout");
  reject(spec.rotary.sections[0] != 0, "rotary embedding of several axes");
  reject(spec.rotary.cos_cache.defined() || spec.rotary.sin_cache.defined(), "rotary caches");
}

EncoderLayer make_model_layer(const LanguageModelSpec& spec, int64_t index,
                              const std::shared_ptr<const Rotary>& rotary, DType dtype) {
  const bool gpt2 = spec.layout == LanguageModelLayout::gpt2;
  const MultiHeadAttentionSpec attention{.num_kv_heads = spec.kv_heads,
                                         .head_dim = spec.head_dim,
                                         .bias = spec.attention_bias,
                                         .qk_norm = spec.layout == LanguageModelLayout::qwen3,
                                         .qk_norm_epsilon = spec.norm_epsilon,
                                         .mask = "causal(bottom-right)"};
  EncoderLayer layer = make_encoder_layer(spec.features, spec.heads,
                                          {.hidden_features = spec.hidden_features,
                                           .activation = *spec.activation,
                                           .norm_first = true,
                                           .dropout = spec.residual_dropout,
                                           .dropout_stream = static_cast<uint64_t>(8 * index + 1),
                                           .norm_epsilon = spec.norm_epsilon,
                                           .rms_norm = !gpt2,
                                           .gated = !gpt2,
                                           .network_bias = spec.network_bias,
                                           .attention = attention},
                                          dtype);
  layer.self_attn.dropout = spec.attention_dropout;
  layer.network.dropout = {};
  if (!gpt2) {
    layer.self_attn.options.rotary.embedding = rotary.get();
    layer.self_attn.owned.push_back(rotary);
  }
  return layer;
}

}  // namespace

LanguageModelSpec complete_spec(const LanguageModelSpec& given) {
  if (given.layout > LanguageModelLayout::qwen3)
    fail_model("layout " + std::to_string(static_cast<int>(given.layout)) + " is unknown");
  check_model_sizes(given);
  LanguageModelSpec spec = given;
  const bool gpt2 = spec.layout == LanguageModelLayout::gpt2;
  if (spec.kv_heads == 0) spec.kv_heads = spec.heads;
  if (spec.head_dim == 0) {
    if (spec.features % spec.heads != 0)
      fail_model("features " + std::to_string(spec.features) + " is not divisible by heads " +
                 std::to_string(spec.heads) + "; expected a multiple of it, or a head_dim");
    spec.head_dim = spec.features / spec.heads;
  }
  if (spec.hidden_features == 0 &&
      __builtin_mul_overflow(spec.features, int64_t{4}, &spec.hidden_features))
    fail_model("features is " + std::to_string(spec.features) + "; expected fewer");
  if (!spec.activation) spec.activation = gpt2 ? Activation::gelu_tanh : Activation::silu;
  if (gpt2) spec.attention_bias = spec.network_bias = true, spec.rotary = {};
  check_layout(spec);
  return spec;
}

double count_parameters(const LanguageModelSpec& given) {
  const LanguageModelSpec spec = complete_spec(given);
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const bool gpt2 = spec.layout == LanguageModelLayout::gpt2;
  const double features = number(spec.features), hidden = number(spec.hidden_features);
  const double inner = number(spec.heads) * number(spec.head_dim);
  const double all = inner + 2 * number(spec.kv_heads) * number(spec.head_dim);
  const double norm = (gpt2 ? 2 : 1) * features;
  double layer = features * (all + inner + (gpt2 ? 2 : 3) * hidden) + 2 * norm;
  if (spec.attention_bias) layer += all + features;
  if (spec.network_bias) layer += (gpt2 ? 1 : 2) * hidden + features;
  if (spec.layout == LanguageModelLayout::qwen3) layer += 2 * number(spec.head_dim);
  double tables = number(spec.vocabulary) * (spec.tied_head ? 1 : 2);
  if (gpt2) tables += number(spec.context);
  return tables * features + number(spec.layers) * layer + norm;
}

LanguageModel make_language_model(const LanguageModelSpec& given, DType dtype, Frozen frozen) {
  const auto finish = [&](auto& part) {
    if (frozen == Frozen::yes) freeze(part);
  };
  LanguageModel model;
  model.spec = complete_spec(given);
  const LanguageModelSpec& spec = model.spec;
  const bool gpt2 = spec.layout == LanguageModelLayout::gpt2;
  const auto rotary = std::make_shared<const Rotary>(spec.rotary);
  if (!gpt2) rotary_frequencies(*rotary, spec.head_dim);  // throws for a rotary that does not fit
  model.embedding = make_embedding(spec.vocabulary, spec.features, dtype);
  finish(model.embedding);
  if (gpt2) model.positions = make_embedding(spec.context, spec.features, dtype);
  for (int64_t i = 0; i < spec.layers; ++i) {
    model.layers.push_back(make_model_layer(spec, i, rotary, dtype));
    finish(model.layers.back());
  }
  model.norm = make_norm(spec.features, {.rms = !gpt2, .epsilon = spec.norm_epsilon}, dtype);
  if (!spec.tied_head) model.head = make_parameter(dtype, {spec.vocabulary, spec.features});
  model.dropout = {spec.embedding_dropout, 0};
  finish(model);
  return model;
}

void initialize_language_model(LanguageModel& model, uint64_t seed) {
  const double wide = model.spec.initializer_range;
  const double narrow = model.spec.layout == LanguageModelLayout::gpt2
                            ? wide / std::sqrt(2 * static_cast<double>(model.spec.layers))
                            : wide;
  visit(model, [&](const std::string& name, Parameter& p) {
    if (p.value.rank() < 2) {
      p.init = Init::keep();
      return;
    }
    const bool back = name.ends_with("out_proj.weight") || name.ends_with("linear2.weight");
    p.init = Init::normal(back ? narrow : wide);
  });
  initialize(model, seed);
}

}  // namespace rapt::nn

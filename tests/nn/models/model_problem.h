#pragma once
// A small language model of each layout, with drawn parameters, tokens and targets.
#include <string>

#include "nn/elements.h"
#include "nn/gradient_check.h"
#include "rapt/nn/language_model.h"

namespace nn_tests {

// Sizes that differ from each other, and what the layout has beside its defaults.
inline rapt::nn::LanguageModelSpec small_model(rapt::nn::LanguageModelLayout layout) {
  using rapt::nn::LanguageModelLayout;
  rapt::nn::LanguageModelSpec spec{
      .layout = layout, .vocabulary = 11, .context = 9, .layers = 2, .heads = 4, .features = 8};
  spec.hidden_features = 13;
  if (layout == LanguageModelLayout::gpt2) return spec;
  spec.kv_heads = 2;
  spec.tied_head = layout == LanguageModelLayout::qwen3;
  spec.norm_epsilon = 1e-6;
  spec.rotary.theta = 100;
  if (layout == LanguageModelLayout::llama) {
    spec.attention_bias = spec.network_bias = true;
    spec.rotary.scaling = rapt::RotaryScaling::llama3;
    spec.rotary.factor = 4, spec.rotary.original_length = 4;
  } else {
    spec.head_dim = 6;
  }
  return spec;
}
inline constexpr rapt::nn::LanguageModelLayout kLayouts[] = {rapt::nn::LanguageModelLayout::gpt2,
                                                             rapt::nn::LanguageModelLayout::llama,
                                                             rapt::nn::LanguageModelLayout::qwen3};

struct ModelProblem {
  rapt::nn::LanguageModel model;
  rapt::Tensor tokens, targets, logits;  // [batch, length]; logits [batch, length, vocabulary]
  double loss = 0;

  explicit ModelProblem(const rapt::nn::LanguageModelSpec& spec,
                        rapt::DType dtype = rapt::DType::f64, int64_t batch = 2, int64_t length = 6)
      : model(make_language_model(spec, dtype)),
        tokens(drawn_tokens({batch, length}, spec.vocabulary, 1)),
        targets(drawn_tokens({batch, length}, spec.vocabulary, 2)),
        logits(dtype, {batch, length, spec.vocabulary}) {
    draw_parameters(model, 1);
  }

  void run(const Counted& counted, bool with_backward) {
    counted([&](rapt::nn::Arena& states, const rapt::nn::Run& run) {
      const auto state = make_state(model, tokens.dim(0), tokens.dim(1), states);
      forward(model, tokens, state, run);
      compute_logits(model, state.normed, logits, run);
      loss = target_loss(model, targets, state, run);
      if (with_backward) backward(model, tokens, targets, state, run);
    });
  }
};

}  // namespace nn_tests

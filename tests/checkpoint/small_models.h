#pragma once
// A small language model of each layout, with drawn parameters.
#include "rapt/nn/language_model.h"

namespace checkpoint_tests {

inline rapt::nn::LanguageModel small_language_model(rapt::nn::LanguageModelLayout layout,
                                                    bool tied_head, uint64_t seed = 1) {
  rapt::nn::LanguageModelSpec spec{
      .layout = layout, .vocabulary = 7, .context = 5, .layers = 2, .heads = 2, .features = 4};
  spec.hidden_features = 6, spec.tied_head = tied_head;
  if (layout != rapt::nn::LanguageModelLayout::gpt2) spec.kv_heads = 1, spec.head_dim = 6;
  rapt::nn::LanguageModel model = make_language_model(spec);
  initialize_language_model(model, seed);
  return model;
}

inline constexpr rapt::nn::LanguageModelLayout kAllLayouts[] = {
    rapt::nn::LanguageModelLayout::gpt2, rapt::nn::LanguageModelLayout::llama,
    rapt::nn::LanguageModelLayout::qwen3};

// Do all parameters have the same values?
inline bool same_parameters(rapt::nn::LanguageModel& a, rapt::nn::LanguageModel& b) {
  std::vector<float> of_a, of_b;
  const auto append = [](std::vector<float>& to) {
    return [&to](const std::string&, rapt::nn::Parameter& p) {
      const auto values = p.value.values<float>();
      to.insert(to.end(), values.begin(), values.end());
    };
  };
  visit(a, append(of_a));
  visit(b, append(of_b));
  return of_a == of_b;
}

}  // namespace checkpoint_tests

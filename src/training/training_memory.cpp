#include "rapt/training/training_memory.h"

#include <algorithm>

namespace rapt::training {
namespace {

double as_double(int64_t value) { return static_cast<double>(value); }

// Bytes of the activations of one row, a token of the batch; see EncoderLayer::State and
// backward() of EncoderLayer.
double activation_bytes(const nn::LanguageModelSpec& spec, double element, double computed) {
  const bool gpt2 = spec.layout == nn::LanguageModelLayout::gpt2;
  const bool qwen3 = spec.layout == nn::LanguageModelLayout::qwen3;
  const double features = as_double(spec.features), hidden = as_double(spec.hidden_features);
  const double heads = as_double(spec.heads), kv_heads = as_double(spec.kv_heads);
  const double inner = heads * as_double(spec.head_dim), kv = kv_heads * as_double(spec.head_dim);
  const double network = (gpt2 ? 2 : 3) * hidden;
  double layer = element * (4 * features + 2 * (inner + kv) + network);
  layer += computed * (heads + (gpt2 ? 4 : 2));  // lse, and the states of the norms
  if (qwen3) layer += element * (inner + kv) + computed * (heads + kv_heads);
  // d_x of two blocks, three gradients within a block, and the gradients of its widest part.
  const double gradients = 5 * features + std::max((gpt2 ? 1 : 3) * hidden, 2 * (inner + kv));
  return as_double(spec.layers) * layer + element * (2 * features + gradients);
}

}  // namespace

TrainingMemory training_memory(const nn::LanguageModelSpec& given,
                               const TrainingSettings& settings) {
  const nn::LanguageModelSpec spec = complete_spec(given);
  const double element = as_double(size_of(settings.dtype));
  const double computed = settings.dtype == DType::f64 ? 8 : 4;
  const double parameters = count_parameters(spec);
  const double rows = as_double(settings.batch) * as_double(settings.block);
  return {.weights = parameters * element,
          .gradients = parameters * computed,
          .moments = parameters * (element < computed ? 3 : 2) * computed,
          .activations = rows * activation_bytes(spec, element, computed) +
                         nn::kept_logits_bytes(spec, settings.dtype, rows)};
}

}  // namespace rapt::training

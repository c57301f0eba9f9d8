#include "rapt/training/choose_sizes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <string>

namespace rapt::training {
namespace {

struct ModelSize {
  int64_t layers, heads, features, block, batch;
  double rate;  // of learning
};
// The third has the features of nanoGPT's recipe for a CPU, the sixth features and rate of that for
// an A100, the last two the rate of GPT-2 (Brown et al. 2020, arXiv:2005.14165, table 2.1). The
// first is for small texts, the next two for minutes; docs/training.md says what is measured.
constexpr ModelSize kLadder[] = {{2, 2, 64, 64, 8, 2e-3},    {3, 3, 96, 512, 1, 4e-3},
                                 {4, 4, 128, 512, 1, 3e-3},  {6, 6, 192, 512, 2, 1e-3},
                                 {6, 8, 256, 512, 4, 1e-3},  {6, 6, 384, 512, 32, 1e-3},
                                 {8, 8, 512, 512, 32, 6e-4}, {12, 12, 768, 512, 64, 6e-4}};

// The header says why.
constexpr double kLeastSteps = 4000, kMostSteps = 1e9;
constexpr double kMostEpochs = 30, kMostParametersPerToken = 12;
constexpr int64_t kCharactersBelow = 16 << 10;
constexpr int64_t kBytesPerToken = 16, kBytesPerTokenOfMany = 2 << 10;
constexpr int64_t kManyTokens = 4096, kMostVocabulary = 16384;
// The rest of the time is for evaluations and checkpoints.
constexpr double kShareOfUpdates = 0.9;
// An update takes as long as three forward passes, so that all evaluations take a twelfth of the
// time of all updates, unless they read the least or the most windows.
constexpr int64_t kLeastEvaluationWindows = 16, kMostEvaluationWindows = 240;
constexpr double kEvaluationWindowsPerUpdate = 3.0 / 12;
// Those of GPT-2 in tiny Shakespeare (nanoGPT, data/shakespeare/readme.md): an estimate.
constexpr double kBytesPerBpeToken = 3.3;
constexpr int64_t kLeastBlock = 8;
constexpr int64_t kMostWarmup = 100, kEvaluations = 8;  // of a run

double number(int64_t value) { return static_cast<double>(value); }

void check_request(const SizeRequest& request) {
  const auto require = [](bool holds, const char* name, const char* expected) {
    if (!holds)
      throw Error(ErrorCode::argument, std::string(name) + ": expected " + expected, name);
  };
  require(request.text_bytes >= kLeastTextBytes, "text_bytes", "200 bytes of text or more");
  require(request.characters >= 1, "characters", "1 or more");
  require(request.seconds > 0 && std::isfinite(request.seconds), "seconds",
          "a finite number above 0");
  require(request.flops_per_second > 0 && std::isfinite(request.flops_per_second),
          "flops_per_second", "a finite number above 0");
  require(request.vocabulary >= 0, "vocabulary", "0 or more");
  require(request.tokens >= 0, "tokens", "0 or more");
}

int64_t power_of_two_below(int64_t number) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(number)));
}

nn::LanguageModelSpec spec_of(const ModelSize& size, int64_t vocabulary) {
  return {.layout = nn::LanguageModelLayout::qwen3,
          .vocabulary = vocabulary,
          .context = size.block,
          .layers = size.layers,
          .heads = size.heads,
          .features = size.features,
          .hidden_features = gated_features(size.features)};
}

// Parameters of the matrices that a token is multiplied with.
double matrix_parameters(const nn::LanguageModelSpec& spec) {
  const bool gpt2 = spec.layout == nn::LanguageModelLayout::gpt2;
  const double features = number(spec.features), heads = number(spec.heads);
  const double head_dim = spec.head_dim > 0 ? number(spec.head_dim) : features / heads;
  const double kv_heads = spec.kv_heads > 0 ? number(spec.kv_heads) : heads;
  const double hidden = spec.hidden_features > 0 ? number(spec.hidden_features) : 4 * features;
  const double layer = features * (2 * head_dim * (heads + kv_heads) + (gpt2 ? 2 : 3) * hidden);
  return number(spec.layers) * layer + number(spec.vocabulary) * features;
}

// Floating-point operations of all updates.
double affordable_flops(const SizeRequest& request) {
  return request.seconds * request.flops_per_second * kShareOfUpdates;
}

double tokens_of(const SizeRequest& request) {
  if (request.tokens > 0) return number(request.tokens);
  const bool characters = choose_tokenizer(request.text_bytes).kind == TokenizerKind::characters;
  return number(request.text_bytes) / (characters ? 1 : kBytesPerBpeToken);
}

// The largest model that the time and the text suffice for.
ModelSize choose_model(double flops, double training_tokens, int64_t vocabulary) {
  ModelSize chosen = kLadder[0];
  for (const ModelSize& size : kLadder) {
    const nn::LanguageModelSpec spec = spec_of(size, vocabulary);
    if (kLeastSteps * training_flops(spec, size.batch, size.block) > flops ||
        matrix_parameters(spec) > kMostParametersPerToken * training_tokens)
      break;
    chosen = size;
  }
  return chosen;
}

}  // namespace

TokenizerChoice choose_tokenizer(int64_t text_bytes) {
  if (text_bytes < kCharactersBelow) return {.kind = TokenizerKind::characters};
  const int64_t few = std::min(text_bytes / kBytesPerToken, kManyTokens);
  const int64_t wanted = std::max(few, text_bytes / kBytesPerTokenOfMany);
  return {.kind = TokenizerKind::byte_level_bpe,
          .vocabulary = std::min(power_of_two_below(wanted), kMostVocabulary)};
}

int64_t gated_features(int64_t features) { return (features * 8 / 3 + 31) / 32 * 32; }

void set_steps(TrainingSettings& settings, int64_t steps) {
  settings.steps = steps;
  settings.warmup_steps = std::min(kMostWarmup, steps / 10);
  settings.evaluation_interval = (steps + kEvaluations - 1) / kEvaluations;
  const double read = kEvaluationWindowsPerUpdate * number(steps) * number(settings.batch);
  settings.evaluation_windows =
      static_cast<int64_t>(std::clamp(read / number(kEvaluations), number(kLeastEvaluationWindows),
                                      number(kMostEvaluationWindows)));
}

double largest_learning_rate(int64_t features) {
  for (const ModelSize& size : kLadder)
    if (features <= size.features) return size.rate;
  return std::end(kLadder)[-1].rate;
}

void set_learning_rate(TrainingSettings& settings, double largest) {
  settings.learning_rate = largest;
  settings.min_learning_rate = largest / 100;
}

double training_flops(const nn::LanguageModelSpec& spec, int64_t batch, int64_t block) {
  const double head_dim =
      spec.head_dim > 0 ? number(spec.head_dim) : number(spec.features) / number(spec.heads);
  const double attention = 6 * number(spec.layers) * number(spec.heads) * head_dim * number(block);
  return number(batch) * number(block) * (6 * matrix_parameters(spec) + attention);
}

int64_t affordable_steps(const SizeRequest& request, const nn::LanguageModelSpec& spec,
                         int64_t batch, int64_t block) {
  const double in_time = affordable_flops(request) / training_flops(spec, batch, block);
  const double in_text = kMostEpochs * 0.9 * tokens_of(request) / number(batch * block);
  return static_cast<int64_t>(std::clamp(std::min(in_time, in_text), 1.0, kMostSteps));
}

ChosenSizes choose_sizes(const SizeRequest& request) {
  check_request(request);
  ChosenSizes chosen;
  chosen.tokenizer = choose_tokenizer(request.text_bytes);
  const bool characters = chosen.tokenizer.kind == TokenizerKind::characters;
  const int64_t planned = characters ? request.characters : chosen.tokenizer.vocabulary;
  const int64_t vocabulary = request.vocabulary > 0 ? request.vocabulary : planned;
  const double tokens = tokens_of(request);
  ModelSize size = choose_model(affordable_flops(request), 0.9 * tokens, vocabulary);
  // The held-out tenth has at least two windows.
  while (size.block > kLeastBlock && 2 * number(size.block) > tokens / 10) size.block /= 2;
  chosen.model = spec_of(size, vocabulary);

  TrainingSettings& settings = chosen.settings;
  settings.batch = size.batch;
  settings.block = size.block;
  set_steps(settings, affordable_steps(request, chosen.model, size.batch, size.block));
  set_learning_rate(settings, largest_learning_rate(size.features));
  return chosen;
}

}  // namespace rapt::training

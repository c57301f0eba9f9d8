#include "cli/train/training_plan.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "cli/process/memory.h"
#include "rapt/text/verse_grammar.h"
#include "rapt/training/trainer.h"
#include "rapt/training/training_memory.h"

namespace rapt::cli {
namespace {

constexpr int64_t kProbeCharacters = 20'000;
constexpr double kProbeSeconds = 0.25;
constexpr int64_t kMostProbeSteps = 64;

// gpt2 has the default, four times the features.
int64_t network_features(const TextRunSettings& given, int64_t features) {
  return given.layout == nn::LanguageModelLayout::gpt2 ? 0 : training::gated_features(features);
}

// The most heads, at most `most`, that share the features in pairs, which rotary embedding turns.
int64_t fitting_heads(int64_t features, int64_t most) {
  for (int64_t heads = most; heads > 1; --heads)
    if (features % (2 * heads) == 0) return heads;
  return 1;
}

// Features for this number of heads: at most `features`, and an even number for each head.
int64_t fitting_features(int64_t features, int64_t heads) {
  return std::max<int64_t>(1, features / (2 * heads)) * 2 * heads;
}

bool decides_all_sizes(const TextRunSettings& given) {
  return given.layers && given.heads && given.features && given.block && given.batch && given.steps;
}

void plan_model(const TextRunSettings& given, nn::LanguageModelSpec& spec) {
  spec.layout = given.layout;
  spec.layers = given.layers.value_or(spec.layers);
  if (given.heads) {
    spec.heads = *given.heads;
    spec.features = given.features.value_or(fitting_features(spec.features, spec.heads));
  } else if (given.features) {
    spec.features = *given.features;
    spec.heads = fitting_heads(spec.features, spec.heads);
  }
  spec.hidden_features = network_features(given, spec.features);
  spec.attention_dropout = given.dropout;
  if (given.layout == nn::LanguageModelLayout::gpt2)
    spec.embedding_dropout = spec.residual_dropout = given.dropout;
}

// Updates of these sizes that have as many operations as those that were chosen.
int64_t affordable_steps(const training::ChosenSizes& chosen, const nn::LanguageModelSpec& spec,
                         int64_t batch, int64_t block) {
  const training::TrainingSettings& settings = chosen.settings;
  const double operations = static_cast<double>(settings.steps) *
                            training::training_flops(chosen.model, settings.batch, settings.block);
  return static_cast<int64_t>(
      std::clamp(operations / training::training_flops(spec, batch, block), 1.0, 1e9));
}

void plan_steps(const TextRunSettings& given, const training::ChosenSizes& chosen,
                training::ChosenSizes& plan) {
  training::TrainingSettings& settings = plan.settings;
  settings.batch = given.batch.value_or(settings.batch);
  settings.block = given.block.value_or(settings.block);
  plan.model.context = settings.block;
  training::set_steps(settings, given.steps.value_or(affordable_steps(
                                    chosen, plan.model, settings.batch, settings.block)));
  settings.evaluation_interval = given.evaluation_interval.value_or(settings.evaluation_interval);
  training::set_learning_rate(settings, given.learning_rate.value_or(settings.learning_rate));
  settings.seed = given.seed;
  settings.dtype = given.dtype;
}

// Floating-point operations per second of updates of these sizes; none if they do not fit the
// memory.
std::optional<double> measure_training_speed(const training::ChosenSizes& sizes,
                                             const Context& context) {
  const std::string verse = text::write_verse(kProbeCharacters, 1);
  const training::NamedText texts[] = {{"verse", verse}};
  training::TrainingData data(texts, training::learn_tokenizer(texts, {}));
  nn::LanguageModelSpec spec = sizes.model;
  spec.vocabulary = data.tokenizer().vocabulary();
  const training::TrainingSettings settings{.batch = sizes.settings.batch,
                                            .block = sizes.settings.block,
                                            .steps = kMostProbeSteps,
                                            .warmup_steps = 0};
  if (training::training_memory(spec, settings).total() > static_cast<double>(available_memory()))
    return std::nullopt;
  training::Trainer trainer(spec, settings, std::move(data), context);
  trainer.step();  // pages and caches
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  double seconds = 0;
  int64_t steps = 0;
  while (seconds < kProbeSeconds && steps < kMostProbeSteps - 1) {
    trainer.step();
    ++steps;
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(steps) *
         training::training_flops(spec, settings.batch, settings.block) / seconds;
}

// Smaller models make fewer operations per second, so the model that the speed of a middling one
// allows is measured, too.
training::ChosenSizes choose_by_probes(training::SizeRequest request, const Context& context) {
  training::ChosenSizes sizes;
  sizes.model = {.layout = nn::LanguageModelLayout::qwen3,
                 .context = 64,
                 .layers = 4,
                 .heads = 4,
                 .features = 128,
                 .hidden_features = 352};
  for (int probe = 0; probe < 2; ++probe) {
    const std::optional<double> speed = measure_training_speed(sizes, context);
    if (speed) request.flops_per_second = *speed;
    sizes = training::choose_sizes(request);
  }
  return sizes;
}

}  // namespace

training::ChosenSizes plan_training(const TextRunSettings& given, const TrainingTexts& texts) {
  // Any speed will do where it decides nothing.
  const training::SizeRequest request{.text_bytes = texts.bytes(),
                                      .characters = texts.characters,
                                      .seconds = given.seconds,
                                      .flops_per_second = 1e9};
  const training::ChosenSizes chosen = decides_all_sizes(given)
                                           ? training::choose_sizes(request)
                                           : choose_by_probes(request, given.context);
  training::ChosenSizes plan = chosen;
  if (given.tokenizer) {
    const bool bpe = *given.tokenizer == training::TokenizerKind::byte_level_bpe;
    plan.tokenizer.kind = *given.tokenizer;
    plan.tokenizer.vocabulary =
        bpe ? given.vocabulary.value_or(
                  std::max(training::kLeastPlannedVocabulary, chosen.tokenizer.vocabulary))
            : 0;
    plan.model.vocabulary = bpe ? plan.tokenizer.vocabulary : texts.characters;
  }
  plan_model(given, plan.model);
  plan_steps(given, chosen, plan);
  return plan;
}

}  // namespace rapt::cli

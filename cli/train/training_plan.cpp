#include "cli/train/training_plan.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cli/process/memory.h"
#include "rapt/training/trainer.h"
#include "rapt/training/training_memory.h"

namespace rapt::cli {
namespace {

constexpr size_t kProbeBytes = 1 << 16;
constexpr double kGuessedSpeed = 50e9;  // floating-point operations per second, before a probe
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

bool decides_sizes(const TextRunSettings& given) {
  return given.layers && given.heads && given.features && given.block && given.batch;
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

void plan_updates(const TextRunSettings& given, training::ChosenSizes& plan) {
  training::TrainingSettings& settings = plan.settings;
  settings.batch = given.batch.value_or(settings.batch);
  settings.block = given.block.value_or(settings.block);
  plan.model.context = settings.block;
  // The model is another than the chosen one where options change it.
  training::set_learning_rate(settings, training::largest_learning_rate(plan.model.features));
  if (given.learning_rate) {  // ends at a tenth, as in nanoGPT's recipes
    settings.learning_rate = *given.learning_rate;
    settings.min_learning_rate = *given.learning_rate / 10;
  }
  settings.seed = given.seed;
  settings.dtype = given.dtype;
}

// The beginnings of the texts as one text, which is long enough for all sizes if the texts are.
training::TrainingData probe_data(const TrainingTexts& texts, const text::Tokenizer& tokenizer) {
  std::string beginning;
  for (const std::string& text : texts.texts) {
    size_t end = std::min(text.size(), kProbeBytes - beginning.size());
    // Bytes 10xxxxxx continue a character.
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    beginning.append(text, 0, end);
  }
  const training::NamedText views[] = {{"the texts", beginning}};
  return training::TrainingData(views, tokenizer);
}

// Floating-point operations per second of updates of these sizes; none if they do not fit the
// memory or the text.
std::optional<double> measure_training_speed(const training::ChosenSizes& sizes,
                                             training::TrainingData data, const Context& context) {
  training::TrainingSettings settings{.batch = sizes.settings.batch,
                                      .block = sizes.settings.block,
                                      .steps = kMostProbeSteps,
                                      .warmup_steps = 0,
                                      .dtype = sizes.settings.dtype};
  while (settings.block > 1 && settings.block >= std::ssize(data.held_out()[0]))
    settings.block /= 2;
  if (settings.block >= std::ssize(data.held_out()[0]) ||
      training::training_memory(sizes.model, settings).total() >
          static_cast<double>(available_memory()))
    return std::nullopt;
  training::Trainer trainer(sizes.model, settings, std::move(data), context);
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
         training::training_flops(sizes.model, settings.batch, settings.block) / seconds;
}

// Measures the speed of these sizes for a request, where that is possible.
void probe(const training::ChosenSizes& sizes, const training::TrainingData& data,
           const Context& context, training::SizeRequest& request) {
  const std::optional<double> speed = measure_training_speed(sizes, data, context);
  if (speed) request.flops_per_second = *speed;
}

// Smaller models make fewer operations per second, so the model that the speed of the first one
// allows is measured, too.
training::ChosenSizes choose_by_probes(training::SizeRequest& request,
                                       const training::TrainingData& data, const Context& context) {
  for (int probes = 0; probes < 2; ++probes)
    probe(training::choose_sizes(request), data, context, request);
  return training::choose_sizes(request);
}

int64_t count_tokens(std::span<const training::Tokens> parts) {
  int64_t count = 0;
  for (const training::Tokens& tokens : parts) count += std::ssize(tokens);
  return count;
}

}  // namespace

training::TokenizerChoice plan_tokenizer(const TextRunSettings& given, const TrainingTexts& texts) {
  training::TokenizerChoice choice = training::choose_tokenizer(texts.bytes());
  if (!given.tokenizer) return choice;
  choice.kind = *given.tokenizer;
  const bool bpe = choice.kind == training::TokenizerKind::byte_level_bpe;
  choice.vocabulary = bpe ? given.vocabulary.value_or(
                                std::max(training::kLeastPlannedVocabulary, choice.vocabulary))
                          : 0;
  return choice;
}

training::ChosenSizes plan_training(const TextRunSettings& given, const TrainingTexts& texts,
                                    const training::TrainingData& data) {
  training::SizeRequest request{
      .text_bytes = texts.bytes(),
      .characters = texts.characters,
      .seconds = given.seconds,
      .flops_per_second = kGuessedSpeed,
      .vocabulary = data.tokenizer().vocabulary(),
      .tokens = count_tokens(data.training()) + count_tokens(data.held_out())};
  // The speed decides only what is not given.
  std::optional<training::TrainingData> beginning;
  if (!decides_sizes(given) || !given.steps) beginning = probe_data(texts, data.tokenizer());
  training::ChosenSizes plan = decides_sizes(given)
                                   ? training::choose_sizes(request)
                                   : choose_by_probes(request, *beginning, given.context);
  plan_model(given, plan.model);
  plan_updates(given, plan);
  training::TrainingSettings& settings = plan.settings;
  // Options, or the last speed, may have led to sizes that were not measured.
  if (!given.steps) probe(plan, *beginning, given.context, request);
  training::set_steps(settings, given.steps.value_or(training::affordable_steps(
                                    request, plan.model, settings.batch, settings.block)));
  settings.evaluation_interval = given.evaluation_interval.value_or(settings.evaluation_interval);
  return plan;
}

}  // namespace rapt::cli

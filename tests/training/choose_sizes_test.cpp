// Sizes by time: nanoGPT's recipe where its operations fit, and sensible ends.
#include "rapt/training/choose_sizes.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace rapt::training;

constexpr int64_t kTinyShakespeare = 1'115'394;

TEST(ChooseSizes, CountsTheOperationsOfNanoGpt) {
  // nanoGPT's own count, 6 N + 12 L H Q T for each token, is 3.96e9; the mask halves the second.
  const nn::LanguageModelSpec spec{
      .vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .features = 128};
  EXPECT_NEAR(training_flops(spec, 12, 64), 3.81e9, 0.02e9);
}

TEST(ChooseSizes, GivesTheModelOfTheRecipeForACpu) {
  const ChosenSizes chosen = choose_sizes({.text_bytes = kTinyShakespeare,
                                           .characters = 65,
                                           .seconds = 300,
                                           .flops_per_second = 100e9});
  EXPECT_EQ(chosen.tokenizer.kind, TokenizerKind::byte_level_bpe);
  EXPECT_EQ(chosen.model.vocabulary, 4096);
  EXPECT_EQ(chosen.model.layers, 4);
  EXPECT_EQ(chosen.model.heads, 4);
  EXPECT_EQ(chosen.model.features, 128);
  EXPECT_EQ(chosen.settings.block, 512);
  EXPECT_EQ(chosen.settings.warmup_steps, 100);
  EXPECT_GE(chosen.settings.steps, 4000);
}

TEST(ChooseSizes, ChoosesTokensByTheBytesOfText) {
  EXPECT_EQ(choose_tokenizer(16'383).kind, TokenizerKind::characters);
  const auto vocabulary = [](int64_t bytes) {
    const TokenizerChoice choice = choose_tokenizer(bytes);
    EXPECT_EQ(choice.kind, TokenizerKind::byte_level_bpe);
    return choice.vocabulary;
  };
  EXPECT_EQ(vocabulary(16'384), 1024);
  EXPECT_EQ(vocabulary(66'759), 4096) << "the poems of rapt train";
  EXPECT_EQ(vocabulary(kTinyShakespeare), 4096);
  EXPECT_EQ(vocabulary(16 << 20), 8192);
  EXPECT_EQ(vocabulary(int64_t{1} << 40), 16384);
}

TEST(ChooseSizes, TakesWhatIsKnownOfTheTokenizer) {
  SizeRequest request{
      .text_bytes = 66'759, .characters = 65, .seconds = 120, .flops_per_second = 60e9};
  const ChosenSizes guessed = choose_sizes(request);
  request.vocabulary = 4096, request.tokens = 18'541;
  const ChosenSizes known = choose_sizes(request);
  EXPECT_EQ(known.model.vocabulary, guessed.model.vocabulary);
  // There is time for more, but thirty times the training parts.
  EXPECT_EQ(known.settings.steps, 30 * 18'541 * 9 / 10 / 512);
  request.vocabulary = 65, request.tokens = 66'759;
  const ChosenSizes characters = choose_sizes(request);
  EXPECT_EQ(characters.model.vocabulary, 65);
  EXPECT_EQ(characters.settings.steps,
            30 * 66'759 * 9 / 10 / (characters.settings.batch * characters.settings.block));
}

TEST(ChooseSizes, TellsTheUpdatesOfOtherSizes) {
  SizeRequest request{
      .text_bytes = 100'000'000, .characters = 200, .seconds = 60, .flops_per_second = 100e9};
  const ChosenSizes chosen = choose_sizes(request);
  const auto steps = [&](int64_t batch) {
    return affordable_steps(request, chosen.model, batch, chosen.settings.block);
  };
  EXPECT_EQ(steps(chosen.settings.batch), chosen.settings.steps);
  EXPECT_EQ(steps(4 * chosen.settings.batch), chosen.settings.steps / 4);
  request.seconds = 1e9;
  EXPECT_EQ(affordable_steps(request, chosen.model, 1000, 500),
            static_cast<int64_t>(30 * 0.9 * 1e8 / 3.3 / 500'000));
}

TEST(ChooseSizes, TakesLargerModelsForMoreTime) {
  int64_t features = 0;
  for (const double seconds : {1.0, 60.0, 3600.0, 86400.0}) {
    const ChosenSizes chosen = choose_sizes({.text_bytes = 100'000'000,
                                             .characters = 200,
                                             .seconds = seconds,
                                             .flops_per_second = 100e9});
    EXPECT_EQ(chosen.tokenizer.kind, TokenizerKind::byte_level_bpe);
    EXPECT_EQ(chosen.tokenizer.vocabulary, 16384);
    EXPECT_GE(chosen.model.features, features);
    features = chosen.model.features;
    check_settings(chosen.settings);
    const double flops = training_flops(chosen.model, chosen.settings.batch, chosen.settings.block);
    EXPECT_LE(static_cast<double>(chosen.settings.steps - 1) * flops, seconds * 100e9);
  }
  EXPECT_GE(features, 256);
}

TEST(ChooseSizes, TheLearningRateFollowsFromTheFeatures) {
  EXPECT_EQ(largest_learning_rate(32), 2e-3) << "fewer than on the list";
  EXPECT_EQ(largest_learning_rate(96), 4e-3);
  EXPECT_EQ(largest_learning_rate(128), 3e-3);
  EXPECT_EQ(largest_learning_rate(129), 1e-3) << "that of the next larger model";
  EXPECT_EQ(largest_learning_rate(768), 6e-4);
  EXPECT_EQ(largest_learning_rate(4096), 6e-4) << "more than on the list";
  for (const double seconds : {1.0, 60.0, 3600.0, 86400.0}) {
    const ChosenSizes chosen = choose_sizes({.text_bytes = 100'000'000,
                                             .characters = 200,
                                             .seconds = seconds,
                                             .flops_per_second = 100e9});
    EXPECT_EQ(chosen.settings.learning_rate, largest_learning_rate(chosen.model.features));
  }
}

TEST(ChooseSizes, ARunHasAtMostEightEvaluations) {
  for (const int64_t steps : {1, 2, 7, 8, 9, 15, 1000, 2001}) {
    TrainingSettings settings;
    set_steps(settings, steps);
    check_settings(settings);
    EXPECT_EQ(settings.steps, steps);
    const int64_t interval = settings.evaluation_interval;
    EXPECT_LE((steps + interval - 1) / interval, 8) << steps;  // the last step has one, too
    EXPECT_EQ(settings.warmup_steps, steps < 1000 ? steps / 10 : 100);
  }
}

TEST(ChooseSizes, EvaluationsTakeATwelfthOfTheUpdates) {
  TrainingSettings settings{.batch = 8};
  const auto windows = [&](int64_t steps) {
    set_steps(settings, steps);
    return settings.evaluation_windows;
  };
  EXPECT_EQ(windows(10), 16);
  EXPECT_EQ(windows(400), 400 * 8 * 3 / 12 / 8);
  EXPECT_EQ(windows(100'000), 240);
}

TEST(ChooseSizes, DoesNotReadAShortTextTooOften) {
  for (const int64_t bytes : {200, 2'000, 20'000}) {
    const ChosenSizes chosen = choose_sizes(
        {.text_bytes = bytes, .characters = 50, .seconds = 1e6, .flops_per_second = 1e12});
    check_settings(chosen.settings);
    EXPECT_LE(2 * chosen.settings.block, bytes / 10);
    EXPECT_LE(chosen.settings.steps * chosen.settings.batch * chosen.settings.block, 30 * bytes);
  }
}

TEST(ChooseSizes, RejectsRequestsThatAreNone) {
  const SizeRequest good{
      .text_bytes = 1000, .characters = 10, .seconds = 1, .flops_per_second = 1e9};
  choose_sizes(good);
  const auto rejected = [&](const char* name, const auto& change) {
    SizeRequest request = good;
    change(request);
    laws::expect_error(ErrorCode::argument, {name}, [&] { choose_sizes(request); });
  };
  rejected("text_bytes", [](SizeRequest& r) { r.text_bytes = 199; });
  rejected("characters", [](SizeRequest& r) { r.characters = 0; });
  rejected("seconds", [](SizeRequest& r) { r.seconds = 0; });
  rejected("flops_per_second", [](SizeRequest& r) { r.flops_per_second = -1; });
  rejected("vocabulary", [](SizeRequest& r) { r.vocabulary = -5; });
  rejected("tokens", [](SizeRequest& r) { r.tokens = -1; });
}

}  // namespace

// Steps and evaluations: their bits, what they allocate, and what stops them.
#include <algorithm>
#include <cmath>

#include "memory/allocation_hooks.h"
#include "small_run.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace {

using namespace small_run;
using nn::LanguageModelLayout;

std::vector<double> losses_of(Trainer& trainer, int64_t steps) {
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) losses.push_back(trainer.step().loss);
  return losses;
}

void expect_resumed_bits(LanguageModelLayout layout, DType dtype) {
  const TemporaryFolder folder;
  const TrainingData data = data_of(repeated_text());
  TrainingSettings settings = small_settings();
  settings.dtype = dtype;
  const nn::LanguageModelSpec spec = small_spec(layout, data);
  Trainer whole(spec, settings, data), first(spec, settings, data);
  const std::vector<double> losses = losses_of(whole, 20), before = losses_of(first, 10);
  EXPECT_EQ(before, std::vector<double>(losses.begin(), losses.begin() + 10));
  save_checkpoint(folder.path(), first.checkpoint(), false);

  Trainer second(load_checkpoint(folder.path() + kLatest), data);
  EXPECT_EQ(second.state().step, 10);
  EXPECT_EQ(all_bytes(second), all_bytes(first));
  EXPECT_EQ(losses_of(second, 10), std::vector<double>(losses.begin() + 10, losses.end()));
  EXPECT_EQ(all_bytes(second), all_bytes(whole));
  EXPECT_EQ(second.evaluate().loss, whole.evaluate().loss);
}

TEST(Trainer, GoesOnWithTheSameBits) {
  for (const LanguageModelLayout layout :
       {LanguageModelLayout::gpt2, LanguageModelLayout::llama, LanguageModelLayout::qwen3})
    for (const DType dtype : {DType::f32, DType::bf16}) expect_resumed_bits(layout, dtype);
}

TEST(Trainer, HasTheSameBitsForAnyThreads) {
  const TrainingData data = data_of(repeated_text());
  const nn::LanguageModelSpec spec = small_spec(LanguageModelLayout::qwen3, data);
  laws::Threads threads(4);
  laws::Reversed reversed;
  const Context contexts[] = {{.executor = &threads}, {.executor = &reversed}, {}};
  Trainer expected(spec, small_settings(), data, {.threads = 1});
  const std::vector<double> losses = losses_of(expected, 10);
  const double held_out = expected.evaluate().loss;
  for (const Context& context : contexts) {
    Trainer trainer(spec, small_settings(), data, context);
    EXPECT_EQ(losses_of(trainer, 10), losses);
    EXPECT_EQ(trainer.evaluate().loss, held_out);
    EXPECT_EQ(all_bytes(trainer), all_bytes(expected));
  }
}

TEST(Trainer, LearnsARepeatedText) {
  const TrainingData data = data_of(repeated_text());
  TrainingSettings settings = small_settings();
  settings.steps = 300;
  Trainer trainer(small_spec(LanguageModelLayout::qwen3, data), settings, data);
  const EvaluationRecord before = trainer.evaluate();
  EXPECT_NEAR(before.loss, std::log(static_cast<double>(data.tokenizer().vocabulary())), 0.3);
  EXPECT_TRUE(before.best);
  losses_of(trainer, 300);
  const EvaluationRecord after = trainer.evaluate();
  EXPECT_LT(after.loss, 0.5);
  EXPECT_TRUE(after.best);
  EXPECT_EQ(after.tokens, 6 * 16);
  // Of the 45 characters of the sentence one has two bytes.
  EXPECT_NEAR(after.loss_per_byte, after.loss * 45 / 46, after.loss / 46);
}

TEST(Trainer, StepsAndEvaluationsAllocateNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "allocations are not counted in this build";
  const TrainingData data = data_of(repeated_text());
  Trainer trainer(small_spec(LanguageModelLayout::gpt2, data), small_settings(), data,
                  {.threads = 1});
  trainer.step();
  laws::start_counting();
  trainer.step();
  trainer.evaluate();
  EXPECT_EQ(laws::stop_counting().made, 0);
}

TEST(Trainer, EvaluatesTheSameWindowsInAnyBatches) {
  const TrainingData data = data_of(repeated_text());
  TrainingSettings settings = small_settings();
  for (const EvaluationWindows windows :
       {EvaluationWindows::random, EvaluationWindows::consecutive}) {
    settings.evaluation = windows;
    settings.batch = 4;  // the second batch has two rows that do not count
    Trainer padded(small_spec(LanguageModelLayout::qwen3, data), settings, data);
    settings.batch = 6;
    Trainer full(small_spec(LanguageModelLayout::qwen3, data), settings, data);
    EXPECT_NEAR(padded.evaluate().loss, full.evaluate().loss, 1e-5);
  }
}

TEST(Trainer, EvaluationsChangeNoWeights) {
  const TrainingData data = data_of(repeated_text());
  const nn::LanguageModelSpec spec = small_spec(LanguageModelLayout::gpt2, data);
  Trainer alone(spec, small_settings(), data), evaluated(spec, small_settings(), data);
  for (int i = 0; i < 5; ++i) {
    alone.step();
    evaluated.step();
    evaluated.evaluate();
  }
  EXPECT_EQ(all_bytes(alone), all_bytes(evaluated));
}

TEST(Trainer, ACancelledStepChangesNothing) {
  const TrainingData data = data_of(repeated_text());
  const nn::LanguageModelSpec spec = small_spec(LanguageModelLayout::qwen3, data);
  CancelToken cancelled;
  cancelled.cancel();
  Trainer stopped(spec, small_settings(), data, {.cancel = &cancelled});
  const auto before = all_bytes(stopped);
  laws::expect_error(ErrorCode::cancelled, {}, [&] { stopped.step(); });
  EXPECT_EQ(stopped.state().step, 0);
  EXPECT_EQ(all_bytes(stopped), before);
}

TEST(Trainer, StopsAtALossThatIsNotFinite) {
  const TrainingData data = data_of(repeated_text());
  TrainingSettings settings = small_settings();
  settings.learning_rate = settings.min_learning_rate = 1e30;
  settings.warmup_steps = 0;
  Trainer trainer(small_spec(LanguageModelLayout::gpt2, data), settings, data);
  laws::expect_error(ErrorCode::argument, {"of step", "lower the learning rate"},
                     [&] { losses_of(trainer, 20); });
}

TEST(Trainer, RejectsWhatDoesNotFit) {
  const TrainingData data = data_of(repeated_text());
  const nn::LanguageModelSpec spec = small_spec(LanguageModelLayout::qwen3, data);
  const auto rejected = [&](const std::vector<std::string>& fragments, const auto& change) {
    nn::LanguageModelSpec other = spec;
    TrainingSettings settings = small_settings();
    change(other, settings);
    laws::expect_error(ErrorCode::argument, fragments,
                       [&] { Trainer(other, settings, data, Context()); });
  };
  rejected({"batch is 0"}, [](auto&, auto& s) { s.batch = 0; });
  rejected({"block is 17", "16 positions"}, [](auto&, auto& s) { s.block = 17; });
  rejected({"learning_rate is nan"}, [](auto&, auto& s) { s.learning_rate = NAN; });
  rejected({"warmup_steps is 21"}, [](auto&, auto& s) { s.warmup_steps = 21; });
  rejected({"beta2 is 1"}, [](auto&, auto& s) { s.beta2 = 1; });
  rejected({"dtype is f16"}, [](auto&, auto& s) { s.dtype = DType::f16; });
  rejected({"the model has 99 tokens"}, [](auto& m, auto&) { m.vocabulary = 99; });
  rejected({"501 tokens in its last tenth"}, [](auto& m, auto& s) { m.context = s.block = 500; });
}

}  // namespace

// The loop of a run: its log, cancellation and resumption, and saves that fail.
#include "rapt/training/run_training.h"

#include <unistd.h>

#include "rapt/training/training_log.h"
#include "small_run.h"
#include "support/expect_error.h"

namespace {

using namespace small_run;
using nn::LanguageModelLayout;

// Callbacks that write a log, and cancel after a step.
TrainingCallbacks logging(std::string& log, CancelToken* cancel = nullptr, int64_t after = 0) {
  return {.step =
              [&log, cancel, after](const StepRecord& record) {
                log += log_line(record);
                if (cancel && record.step == after) cancel->cancel();
              },
          .evaluation = [&log](const EvaluationRecord& record) { log += log_line(record); }};
}

TEST(RunTraining, ACancelledRunGoesOnWithTheSameLog) {
  const TrainingData data = data_of(repeated_text());
  const nn::LanguageModelSpec spec = small_spec(LanguageModelLayout::gpt2, data);
  const TemporaryFolder whole_folder;
  std::string expected;
  Trainer whole(spec, small_settings(), data);
  EXPECT_EQ(run_training(whole, whole_folder.path(), logging(expected)), TrainingEnd::finished);
  EXPECT_EQ(load_checkpoint(whole_folder.path() + kLatest).state.step, 20);

  for (const int64_t after : {1, 7, 10, 19, 20}) {
    const TemporaryFolder folder;
    std::string log;
    CancelToken cancel;
    Trainer first(spec, small_settings(), data, {.cancel = &cancel});
    EXPECT_EQ(run_training(first, folder.path(), logging(log, &cancel, after)),
              TrainingEnd::cancelled);
    Trainer second(load_checkpoint(folder.path() + kLatest), data);
    EXPECT_EQ(second.state().step, after);
    EXPECT_EQ(run_training(second, folder.path(), logging(log)), TrainingEnd::finished);
    EXPECT_EQ(log, expected);
    EXPECT_EQ(all_bytes(second), all_bytes(whole));
  }
}

TEST(RunTraining, KeepsTheCheckpointOfTheLeastLoss) {
  const TrainingData data = data_of(repeated_text());
  const TemporaryFolder folder;
  Trainer trainer(small_spec(LanguageModelLayout::qwen3, data), small_settings(), data);
  BestEvaluation best{.loss = 1e9};
  run_training(trainer, folder.path(), {.evaluation = [&](const EvaluationRecord& record) {
                 EXPECT_EQ(record.best, record.loss < best.loss);
                 if (record.best) best = {record.step, record.loss};
               }});
  const TrainingState state = load_checkpoint(folder.path() + kBest).state;
  EXPECT_EQ(state.step, best.step);
  EXPECT_EQ(state.best->loss, best.loss);
}

TEST(RunTraining, GoesOnWhenASaveFails) {
  const TrainingData data = data_of(repeated_text());
  const TemporaryFolder parent;
  const std::string folder = parent.path() + "/run";
  Trainer trainer(small_spec(LanguageModelLayout::qwen3, data), small_settings(), data);
  int64_t failures = 0, saved = 0;
  TrainingCallbacks callbacks;
  callbacks.step = [&](const StepRecord& record) {
    if (record.step == 1) symlink("/dev/null", folder.c_str());  // no folder can be made
    if (record.step == 6) std::filesystem::remove(folder);
  };
  callbacks.save_failed = [&](const Error&) { ++failures; };
  callbacks.checkpoint = [&](int64_t) { ++saved; };
  EXPECT_EQ(run_training(trainer, folder, callbacks), TrainingEnd::finished);
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(saved, 3);
}

TEST(RunTraining, DoesNotReplaceAnotherRun) {
  const TrainingData data = data_of(repeated_text());
  const nn::LanguageModelSpec spec = small_spec(LanguageModelLayout::qwen3, data);
  const TemporaryFolder folder;
  Trainer first(spec, small_settings(), data), second(spec, small_settings(), data);
  run_training(first, folder.path());
  laws::expect_error(ErrorCode::io, {"resume it"}, [&] { run_training(second, folder.path()); });
}

TEST(TrainingLog, IsCutWhereACheckpointContinues) {
  const std::string first = log_line(StepRecord{.step = 1, .loss = 2.5}),
                    second = log_line(EvaluationRecord{.step = 2, .loss = 2}),
                    third = log_line(StepRecord{.step = 3});
  EXPECT_EQ(first,
            "{\"schema\":\"rapt.train/1\",\"record\":\"step\",\"step\":1,\"loss\":2.5,"
            "\"learning_rate\":0.0,\"gradient_norm\":0.0}\n");
  const std::string log = first + second + third;
  EXPECT_EQ(log_through(log, 2), first + second);
  EXPECT_EQ(log_through(log, 3), log);
  EXPECT_EQ(log_through(log, 0), "");
  EXPECT_EQ(log_through(log.substr(0, log.size() - 1), 3), first + second);
  EXPECT_EQ(log_through("no record\n" + log, 3), "");
}

}  // namespace

// The examples of rapt train: runs that need no text, and the goals that they must reach.
#include "cli/train/examples/train_examples.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "cli/input/arguments.h"
#include "cli/output/progress.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/train/examples/copy.h"
#include "cli/train/examples/reformer_copy.h"
#include "cli/train/examples/tiny.h"
#include "cli/train/examples/train_report.h"

namespace rapt::cli {
namespace {

constexpr uint64_t kTrainSeed = 1;
constexpr int64_t kMostTrainSteps = 1'000'000;
constexpr int64_t kStepsPerLine = 20, kReformerStepsPerLine = 50;

// The arguments as numbers, checked.
struct ExampleSettings {
  uint64_t seed = kTrainSeed;
  int64_t steps = 0;
  Context context;
};

// Throws a usage error for what the example has no use for. `steps`: those without --steps; 0: the
// example has no others.
ExampleSettings example_settings(const TrainArguments& a, int64_t steps) {
  ExampleSettings settings;
  settings.steps = steps;
  if (!a.seed.empty()) {
    const int64_t seed = parse_integer("--seed", a.seed);
    if (seed < 0) throw usage_error("--seed: expected 0 or more, got " + a.seed);
    settings.seed = static_cast<uint64_t>(seed);
  }
  if (!a.steps.empty()) {
    if (steps == 0) throw usage_error("--steps is for --example copy and reformer-copy");
    settings.steps = parse_integer("--steps", a.steps);
    if (settings.steps < 1 || settings.steps > kMostTrainSteps)
      throw usage_error(fmt::format("--steps: expected 1 to {}, got {}", kMostTrainSteps, a.steps));
  }
  settings.context.threads = parse_threads(a.threads);
  return settings;
}

// Prints the report of a run that began at `start`. Ends the command with exit code 1 if the run
// missed its goal.
template <class Report>
void finish_example(const Report& report, const TrainArguments& a, const ExampleSettings& settings,
                    std::chrono::steady_clock::time_point start) {
  if (a.json) {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    print_json(train_document(report, settings.seed, time.count()));
  } else {
    fmt::print("{}", report_text(report));
  }
  finish_stdout();
  if (!report.ok()) throw Failure(Exit::differs, missed_goal(report));
}

void run_tiny(const TrainArguments& a, const ExampleSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  const auto train = [&](TinyEmbedding kind) {
    stop_if_interrupted();
    return train_tiny(kind, settings.seed, settings.context);
  };
  const TinyReport report{.frozen = train(TinyEmbedding::frozen),
                          .trained = train(TinyEmbedding::trained),
                          .redrawn = train(TinyEmbedding::redrawn)};
  finish_example(report, a, settings, start);
}

// Prints losses while an example trains, and shows its progress on a terminal.
class TrainingLines {
 public:
  // `prints`: each `interval`-th loss of `steps`.
  TrainingLines(bool prints, int64_t interval, int64_t steps)
      : prints_(prints), interval_(interval), steps_(steps) {
    if (prints) fmt::print("{:>5}{:>11}\n", "step", "loss");
  }

  void add(int64_t step, double loss) {
    losses_.push_back(loss);
    if (!prints_ || (step % interval_ != 0 && step != steps_)) return;
    line_.erase();
    fmt::print("{}", copy_line(step, loss));
    std::fflush(stdout);
  }
  void report(double fraction) {
    line_.report(fraction);
    stop_if_interrupted();
  }
  // All losses, after the last one.
  std::vector<double> finish() {
    line_.erase();
    return std::move(losses_);
  }

 private:
  bool prints_;
  int64_t interval_, steps_;
  ProgressLine line_{-1};
  std::vector<double> losses_;
};

// A run that prints each `interval`-th loss. `train(task, report)` fills what the report has beside
// losses.
template <class Report, class Train>
void run_copy_task(const TrainArguments& a, const ExampleSettings& settings, int64_t interval,
                   const Train& train) {
  const auto start = std::chrono::steady_clock::now();
  TrainingLines lines(!a.json, interval, settings.steps);
  Report report;
  train({.seed = settings.seed,
         .steps = settings.steps,
         .after_step = [&](int64_t step, double loss) { lines.add(step, loss); },
         .progress = [&](double fraction) { lines.report(fraction); }},
        report);
  report.losses = lines.finish();
  finish_example(report, a, settings, start);
}

void run_copy(const TrainArguments& a, const ExampleSettings& settings) {
  run_copy_task<CopyReport>(a, settings, kStepsPerLine,
                            [&](const CopyTask& task, CopyReport& report) {
                              report.copied = train_copy(task, settings.context);
                            });
}

void run_reformer_copy(const TrainArguments& a, const ExampleSettings& settings) {
  run_copy_task<ReformerReport>(a, settings, kReformerStepsPerLine,
                                [&](const CopyTask& task, ReformerReport& report) {
                                  report.accuracy = train_reformer_copy(task, settings.context);
                                });
}

struct TrainExample {
  const char* name;
  int64_t steps;  // without --steps; 0: --steps is rejected
  void (*run)(const TrainArguments& arguments, const ExampleSettings& settings);
};
constexpr TrainExample kTrainExamples[] = {{"tiny", 0, run_tiny},
                                           {"copy", kCopySteps, run_copy},
                                           {"reformer-copy", kReformerSteps, run_reformer_copy}};

// Throws a usage error for a name that is none.
const TrainExample& example_of(const std::string& name) {
  for (const TrainExample& example : kTrainExamples)
    if (name == example.name) return example;
  const std::vector<std::string> names = train_example_names();
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw usage_error(fmt::format("--example: expected {}, got '{}'", fmt::join(names, ", "), name),
                    did_you_mean(name, known));
}

}  // namespace

std::vector<std::string> train_example_names() {
  std::vector<std::string> names;
  for (const TrainExample& example : kTrainExamples) names.push_back(example.name);
  return names;
}

void check_train_example(const TrainArguments& a) {
  example_settings(a, example_of(a.example).steps);
}

void run_train_example(const TrainArguments& a) {
  const TrainExample& example = example_of(a.example);
  example.run(a, example_settings(a, example.steps));
}

}  // namespace rapt::cli

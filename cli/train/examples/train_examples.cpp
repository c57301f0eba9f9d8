// The examples of rapt train: runs that need no text, and the goals that they must reach.
#include "cli/train/examples/train_examples.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "cli/input/arguments.h"
#include "cli/output/progress.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/train/examples/copy.h"
#include "cli/train/examples/tiny.h"
#include "cli/train/examples/train_report.h"

namespace rapt::cli {
namespace {

constexpr uint64_t kTrainSeed = 1;
constexpr int64_t kMostTrainSteps = 1'000'000;
constexpr int64_t kStepsPerLine = 20;

// The arguments as numbers, checked.
struct ExampleSettings {
  uint64_t seed = kTrainSeed;
  int64_t steps = kCopySteps;
  Context context;
};

ExampleSettings example_settings(const TrainArguments& a) {
  ExampleSettings settings;
  if (!a.seed.empty()) {
    const int64_t seed = parse_integer("--seed", a.seed);
    if (seed < 0) throw usage_error("--seed: expected 0 or more, got " + a.seed);
    settings.seed = static_cast<uint64_t>(seed);
  }
  if (!a.steps.empty()) {
    if (a.example != "copy") throw usage_error("--steps is for --example copy");
    settings.steps = parse_integer("--steps", a.steps);
    if (settings.steps < 1 || settings.steps > kMostTrainSteps)
      throw usage_error(fmt::format("--steps: expected 1 to {}, got {}", kMostTrainSteps, a.steps));
  }
  settings.context.threads = parse_threads(a.threads);
  return settings;
}

double example_seconds(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Ends the command with exit code 1 if a run missed its goal.
void require_goal(bool reached, const std::string& missed) {
  finish_stdout();
  if (!reached) throw Failure(Exit::differs, missed);
}

void run_tiny(const TrainArguments& a) {
  const ExampleSettings settings = example_settings(a);
  const auto start = std::chrono::steady_clock::now();
  const auto train = [&](TinyEmbedding kind) {
    stop_if_interrupted();
    return train_tiny(kind, settings.seed, settings.context);
  };
  const TinyReport report{.frozen = train(TinyEmbedding::frozen),
                          .trained = train(TinyEmbedding::trained),
                          .redrawn = train(TinyEmbedding::redrawn)};
  if (a.json) {
    print_json(train_document(report, settings.seed, example_seconds(start)));
  } else {
    fmt::print("{}", tiny_text(report));
  }
  require_goal(report.ok(),
               fmt::format("the loss falls {:.1f} and {:.1f} times; expected {} times",
                           report.frozen.falls(), report.trained.falls(), TinyReport::kWantedFall));
}

void run_copy(const TrainArguments& a) {
  const ExampleSettings settings = example_settings(a);
  const auto start = std::chrono::steady_clock::now();
  CopyReport report;
  ProgressLine line(-1);
  CopyOptions options{.seed = settings.seed, .steps = settings.steps};
  options.after_step = [&](int64_t step, double loss) {
    report.losses.push_back(loss);
    if (a.json || (step % kStepsPerLine != 0 && step != settings.steps)) return;
    line.erase();
    fmt::print("{}", copy_line(step, loss));
    std::fflush(stdout);
  };
  options.progress = [&](double fraction) {
    line.report(fraction);
    stop_if_interrupted();
  };
  if (!a.json) fmt::print("{:>5}{:>11}\n", "step", "loss");
  report.copied = train_copy(options, settings.context);
  line.erase();
  if (a.json) {
    print_json(train_document(report, settings.seed, example_seconds(start)));
  } else {
    fmt::print("{}", copy_text(report));
  }
  require_goal(report.ok(), fmt::format("{} of {} sequences are copied; expected all",
                                        report.copied, kCopySequences));
}

struct TrainExample {
  const char* name;
  void (*run)(const TrainArguments& arguments);
};
constexpr TrainExample kTrainExamples[] = {{"tiny", run_tiny}, {"copy", run_copy}};

// Throws a usage error for a name that is none.
const TrainExample& example_of(const std::string& name) {
  for (const TrainExample& example : kTrainExamples)
    if (name == example.name) return example;
  const std::vector<std::string> names = train_example_names();
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw usage_error("--example: expected tiny or copy, got '" + name + "'",
                    did_you_mean(name, known));
}

}  // namespace

std::vector<std::string> train_example_names() {
  std::vector<std::string> names;
  for (const TrainExample& example : kTrainExamples) names.push_back(example.name);
  return names;
}

void check_train_example(const TrainArguments& a) {
  example_of(a.example);
  example_settings(a);
}

void run_train_example(const TrainArguments& a) { example_of(a.example).run(a); }

}  // namespace rapt::cli

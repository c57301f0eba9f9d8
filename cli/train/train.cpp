// rapt train: trains a small model. --example names one that the program brings along; training on
// a file of the user's is not built yet.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/commands.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/output/progress.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/train/copy.h"
#include "cli/train/tiny.h"
#include "cli/train/train_report.h"

namespace rapt::cli {
namespace {

constexpr uint64_t kTrainSeed = 1;
constexpr int64_t kMostTrainSteps = 1'000'000;
constexpr int64_t kStepsPerLine = 20;

struct TrainArguments {
  std::string example, seed, steps, threads;
  bool json = false;
};

// The arguments as numbers, checked.
struct TrainSettings {
  uint64_t seed = kTrainSeed;
  int64_t steps = kCopySteps;
  Context context;
};

TrainSettings settings_of(const TrainArguments& a) {
  TrainSettings settings;
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

double seconds_from(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Ends the command with exit code 1 if a run missed its goal.
void require_goal(bool reached, const std::string& missed) {
  finish_stdout();
  if (!reached) throw Failure(Exit::differs, missed);
}

void run_tiny(const TrainArguments& a) {
  const TrainSettings settings = settings_of(a);
  const auto start = std::chrono::steady_clock::now();
  const auto train = [&](TinyEmbedding kind) {
    stop_if_interrupted();
    return train_tiny(kind, settings.seed, settings.context);
  };
  const TinyReport report{.frozen = train(TinyEmbedding::frozen),
                          .trained = train(TinyEmbedding::trained),
                          .redrawn = train(TinyEmbedding::redrawn)};
  if (a.json) {
    print_json(train_document(report, settings.seed, seconds_from(start)));
  } else {
    fmt::print("{}", tiny_text(report));
  }
  require_goal(report.ok(),
               fmt::format("the loss falls {:.1f} and {:.1f} times; expected {} times",
                           report.frozen.falls(), report.trained.falls(), TinyReport::kWantedFall));
}

void run_copy(const TrainArguments& a) {
  const TrainSettings settings = settings_of(a);
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
    print_json(train_document(report, settings.seed, seconds_from(start)));
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

std::vector<std::string> example_names() {
  std::vector<std::string> names;
  for (const TrainExample& example : kTrainExamples) names.push_back(example.name);
  return names;
}

// Throws a usage error for a name that is none.
const TrainExample& example_of(const std::string& name) {
  for (const TrainExample& example : kTrainExamples)
    if (name == example.name) return example;
  const std::vector<std::string> names = example_names();
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw usage_error("--example: expected tiny or copy, got '" + name + "'",
                    did_you_mean(name, known));
}

// Without --example, the words are meant to be texts to train on: `rapt train FILE`.
void refuse_texts(const CLI::App& app, const TrainArguments& a) {
  const std::vector<std::string> words = app.remaining();
  const bool text = !words.empty() && !words.front().starts_with('-');
  if (app.get_option("--example")->count() == 0 && (text || words.empty()))
    throw not_built("'rapt train FILE', training on a text,",
                    "'rapt train --example tiny' and '--example copy' train without a file");
  refuse_unknown(app);
  refuse_empty(app);
  example_of(a.example);
}

}  // namespace

Command add_train(CLI::App& root) {
  CLI::App* app = root.add_subcommand("train", "train a small model: two examples");
  const auto a = arguments_of<TrainArguments>(*app);
  offer(app->add_option("--example", a->example, "tiny or copy, as below")->type_name("NAME"),
        example_names());
  app->add_option("--seed", a->seed, "of first values, batches and tests (default 1)")
      ->type_name("N");
  app->add_option("--steps", a->steps,
                  fmt::format("of copy: updates of the parameters (default {})", kCopySteps))
      ->type_name("N");
  app->add_option("--threads", a->threads,
                  "use at most N threads (default: what the machine gives, or RAPT_THREADS)")
      ->type_name("N");
  app->add_flag("--json", a->json, "the same for programs (docs/json.md)");
  app->footer(
      "  tiny   multi-head attention learns to return its input: the loss of three runs with an\n"
      "         embedding that is frozen, trained with it, or drawn again in each epoch, as a\n"
      "         common tutorial has it. The first two must fall 500 times by epoch 80\n"
      "  copy   a Transformer of two blocks learns to copy 16 symbols behind a separator. It must\n"
      "         copy 1,000 of 1,000 unseen sequences, one symbol after the other\n\n"
      "Exit code 1 if a run misses its goal. The numbers depend on the instruction set, not on\n"
      "the threads.\n\n"
      "  rapt train --example copy --seed 2");
  return {app,
          [app, a] {
            refuse_texts(*app, *a);
            settings_of(*a);
          },
          [a] { example_of(a->example).run(*a); }};
}

}  // namespace rapt::cli

#include "cli/train/text_run.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/output/narrate.h"
#include "cli/output/printable.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "cli/train/pictures/training_pictures.h"
#include "cli/train/text_run_report.h"
#include "cli/train/training_log_file.h"
#include "cli/train/training_plan.h"
#include "cli/train/training_sample.h"
#include "cli/train/training_status.h"
#include "rapt/training/run_training.h"
#include "rapt/training/training_memory.h"

namespace rapt::cli {
namespace {

using RunClock = std::chrono::steady_clock;

// The words of the command that name the texts, to be repeated with --resume.
std::string text_words(const TrainArguments& a) {
  std::string words;
  if (!a.text.empty()) words += " --text " + a.text;
  for (const std::string& file : a.files) words += " " + printable(file);
  return words;
}

void check_run_folder(const TextRunSettings& settings, const TrainArguments& a) {
  const std::string& folder = settings.folder;
  const bool has_run = training::has_checkpoint(folder);
  if (settings.resumes && !has_run)
    throw Failure(Exit::io, folder + ": has no checkpoint of a run to resume",
                  "without --resume a run begins");
  if (!settings.resumes && has_run)
    throw Failure(Exit::io, folder + ": has the checkpoint of another run",
                  fmt::format("'rapt train{} --resume {}' goes on with it; --output DIR begins "
                              "another",
                              text_words(a), printable(folder)));
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored) && !std::filesystem::is_directory(folder, ignored))
    throw Failure(Exit::io, folder + ": is no folder");
}

// Throws Failure(memory) before memory is taken.
void check_training_memory(const training::TrainingMemory& memory) {
  require_memory(memory.total(),
                 fmt::format("weights {}, gradients {}, moments {}, activations {}",
                             bytes_text(memory.weights), bytes_text(memory.gradients),
                             bytes_text(memory.moments), bytes_text(memory.activations)),
                 "activations grow with --batch, --block and --layers, the others with --features "
                 "and --layers");
}

std::unique_ptr<training::Trainer> begin_run(const TextRunSettings& settings,
                                             const TrainingTexts& texts) {
  const std::vector<training::NamedText> views = texts.views();
  training::TrainingData data(views,
                              training::learn_tokenizer(views, plan_tokenizer(settings, texts)));
  stop_if_interrupted();
  const training::ChosenSizes plan = plan_training(settings, texts, data);
  check_training_memory(training::training_memory(plan.model, plan.settings));
  return std::make_unique<training::Trainer>(plan.model, plan.settings, std::move(data),
                                             settings.context);
}

std::unique_ptr<training::Trainer> resume_run(const TextRunSettings& settings,
                                              const TrainingTexts& texts) {
  const std::string latest = settings.folder + training::kLatest;
  check_training_memory(training::training_memory(latest));
  training::Checkpoint checkpoint = training::load_checkpoint(latest);
  const std::vector<training::NamedText> views = texts.views();
  // Before the texts are encoded: the tokenizer of another text may lack characters of these.
  if (training::hash_texts(views) != checkpoint.state.text_hash)
    throw Failure(Exit::data, settings.folder + ": the run was trained on other texts",
                  "expected the same texts in the same order");
  training::TrainingData data(views, checkpoint.tokenizer);
  return std::make_unique<training::Trainer>(std::move(checkpoint), std::move(data),
                                             settings.context);
}

void print_head(const training::Trainer& trainer, const TrainingTexts& texts) {
  const training::TrainingSettings& settings = trainer.state().settings;
  const nn::LanguageModelSpec& spec = trainer.model().spec;
  const int64_t count = std::ssize(texts.texts);
  fmt::print("text      {} byte{} in {} text{}, {} different tokens\n", texts.bytes(),
             texts.bytes() == 1 ? "" : "s", count, count == 1 ? "" : "s", spec.vocabulary);
  fmt::print("model     {}: layers {}, heads {}, features {}, {}\n",
             nn::kLanguageModelLayoutNames[static_cast<int>(spec.layout)], spec.layers, spec.heads,
             spec.features, name_of(trainer.model().dtype()));
  fmt::print("training  {} updates of {} window{} of {} tokens, learning rate {:g}\n\n",
             settings.steps, settings.batch, settings.batch == 1 ? "" : "s", settings.block,
             settings.learning_rate);
}

// A run with everything that reports of it.
class TextRun {
 public:
  TextRun(const TextRunSettings& settings, training::Trainer& trainer, bool speaks)
      : settings_(settings),
        trainer_(trainer),
        speaks_(speaks),
        log_(settings.folder, trainer.state().step),
        status_(trainer, settings.context.threads, speaks) {
    report_.folder = settings.folder;
    if (settings.draws) pictures_.emplace(trainer, settings.folder, settings.context);
    if (settings.resumes) report_.resumed_step = trainer.state().step;
  }

  training::TrainingEnd train() {
    const RunClock::time_point start = RunClock::now();
    draw();
    status_.resume_clock();
    const training::TrainingEnd end = training::run_training(
        trainer_, settings_.folder,
        {.step = [this](const training::StepRecord& record) { add(record); },
         .evaluation = [this](const training::EvaluationRecord& record) { add(record); },
         .checkpoint = [this](int64_t) { after_checkpoint(); },
         .save_failed = [this](const Error& error) { tell_failed_save(error); }});
    status_.erase();
    log_.flush();
    report_.seconds = std::chrono::duration<double>(RunClock::now() - start).count();
    report_.tokens_per_second = status_.tokens_per_second();
    report_.share_of_peak = status_.share_of_peak();
    return end;
  }

  const TextRunReport& report() const { return report_; }

 private:
  void add(const training::StepRecord& record) {
    log_.add(record);
    if (pictures_) pictures_->add(record);
    status_.add(record);
  }

  void add(const training::EvaluationRecord& record) {
    log_.add(record);
    log_.flush();
    if (pictures_) pictures_->add(record);
    status_.add(record);
    report_.evaluations.push_back(record);
    evaluated_ = true;
  }

  // Samples and pictures come behind the checkpoint, so that Ctrl-C never comes between it and its
  // evaluation.
  void after_checkpoint() {
    if (evaluated_) print_sample();
    evaluated_ = false;
    draw();
    status_.resume_clock();
  }

  // Whatever is wrong with a picture, the training is worth more.
  void draw() {
    if (!pictures_) return;
    try {
      pictures_->draw();
    } catch (const std::exception& error) {
      status_.erase();
      narrate(fmt::format("rapt train: no picture of step {}: {}", trainer_.state().step,
                          error.what()));
    }
  }

  void print_sample() {
    if (!speaks_ || settings_.sample_interval == 0 ||
        std::ssize(report_.evaluations) % settings_.sample_interval != 0)
      return;
    Context context = settings_.context;
    context.cancel = nullptr;
    const std::string sample = training_sample(trainer_, settings_.sample_length, context);
    for (size_t begin = 0; begin < sample.size();) {
      const size_t end = std::min(sample.find('\n', begin), sample.size());
      fmt::print("  | {}\n", printable(std::string_view(sample).substr(begin, end - begin)));
      begin = end + 1;
    }
    finish_stdout();
  }

  void tell_failed_save(const Error& error) {
    status_.erase();
    narrate(fmt::format("rapt train: no checkpoint of step {}: {}; training goes on",
                        trainer_.state().step, error.what()));
    evaluated_ = false;
    status_.resume_clock();
  }

  const TextRunSettings& settings_;
  training::Trainer& trainer_;
  bool speaks_;
  TrainingLogFile log_;
  TrainingStatus status_;
  std::optional<TrainingPictures> pictures_;
  TextRunReport report_;
  bool evaluated_ = false;  // is the last evaluation without a checkpoint?
};

void print_end(const training::Trainer& trainer, const std::string& folder, bool draws) {
  const training::BestEvaluation& best = *trainer.state().best;
  fmt::print("\nThe least held-out loss is {:.4f}, of step {}: {}/best\n", best.loss, best.step,
             printable(folder));
  if (draws) fmt::print("Pictures: {0}/loss.svg, {0}/attention-*.svg\n", printable(folder));
  fmt::print("\n  rapt generate {} --prompt TEXT\n", printable(folder));
  finish_stdout();
}

[[noreturn]] void tell_interrupted(const training::Trainer& trainer, const TrainArguments& a,
                                   const std::string& folder) {
  if (trainer.state().step == 0) throw Failure(Exit::interrupted, "interrupted before an update");
  throw Failure(
      Exit::interrupted,
      fmt::format("interrupted; step {} is saved as {}/latest", trainer.state().step, folder),
      fmt::format("'rapt train{} --resume {}' goes on", text_words(a), printable(folder)));
}

void make_run_folder(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directory(folder, failure);
  if (failure) throw Failure(Exit::io, folder + ": cannot make the folder: " + failure.message());
}

}  // namespace

void run_on_texts(const TrainArguments& a) {
  TextRunSettings settings = text_run_settings(a);
  settings.context.cancel = &interruption();
  check_run_folder(settings, a);
  const TrainingTexts texts = read_training_texts(a);
  const std::unique_ptr<training::Trainer> trainer =
      settings.resumes ? resume_run(settings, texts) : begin_run(settings, texts);
  make_run_folder(settings.folder);
  if (!a.json) print_head(*trainer, texts);
  TextRun run(settings, *trainer, !a.json);
  if (run.train() == training::TrainingEnd::cancelled)
    tell_interrupted(*trainer, a, settings.folder);
  if (a.json) return print_json(text_run_document(run.report(), texts, *trainer));
  print_end(*trainer, settings.folder, settings.draws);
}

}  // namespace rapt::cli

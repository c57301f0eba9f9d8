#include "cli/train/training_status.h"

#include <fmt/format.h>

#include "cli/output/tensor_output.h"
#include "cli/process/memory.h"
#include "rapt/instruction_sets.h"
#include "rapt/thread_pool.h"
#include "rapt/training/choose_sizes.h"

namespace rapt::cli {
namespace {

constexpr double kFmaPeakSeconds = 0.05;
constexpr int64_t kUpdatesPerMemory = 16;  // reading it takes as long as a small product

}  // namespace

TrainingStatus::TrainingStatus(const training::Trainer& trainer, int threads, bool speaks)
    : first_step_(trainer.state().step),
      steps_(trainer.state().settings.steps),
      speaks_(speaks),
      line_(-1, speaks ? ProgressStyle::terminal : ProgressStyle::none),
      last_(Clock::now()) {
  const training::TrainingSettings& settings = trainer.state().settings;
  tokens_ = static_cast<double>(settings.batch * settings.block);
  flops_ = training::training_flops(trainer.model().spec, settings.batch, settings.block);
  peak_ = 1e9 * measure_fma_gflops(kFmaPeakSeconds) * (threads > 0 ? threads : default_threads());
  if (!speaks_) return;
  fmt::print("{:>8}{:>10}{:>10}{:>10}{:>10}{:>8}\n", "step", "loss", "held out", "per byte",
             "tokens/s", "peak");
  finish_stdout();
  resume_clock();
}

double TrainingStatus::tokens_per_second() const {
  return update_seconds_ > 0 ? tokens_ * static_cast<double>(updates_) / update_seconds_ : 0;
}

double TrainingStatus::share_of_peak() const {
  return peak_ > 0 ? tokens_per_second() / tokens_ * flops_ / peak_ : 0;
}

void TrainingStatus::add(const training::StepRecord& record) {
  update_seconds_ += std::chrono::duration<double>(Clock::now() - last_).count();
  ++updates_;
  loss_sum_ += record.loss;
  ++losses_;
  show_line(record);
  resume_clock();
}

void TrainingStatus::show_line(const training::StepRecord& record) {
  std::string about = fmt::format("{}/{}  loss {:.3f}", record.step, steps_, record.loss);
  if (held_out_ >= 0) about += fmt::format("  held out {:.3f}", held_out_);
  about += fmt::format("  {:.0f} tokens/s  {:.0f} % of peak", tokens_per_second(),
                       100 * share_of_peak());
  if (updates_ % kUpdatesPerMemory == 1) memory_ = resident_memory();
  if (memory_ >= 0) about += "  " + bytes_text(static_cast<double>(memory_));
  line_.report(
      static_cast<double>(record.step - first_step_) / static_cast<double>(steps_ - first_step_),
      about);
}

void TrainingStatus::add(const training::EvaluationRecord& record) {
  held_out_ = record.loss;
  if (!speaks_) return;
  line_.erase();
  const std::string loss =
      losses_ > 0 ? fmt::format("{:.4f}", loss_sum_ / static_cast<double>(losses_)) : "";
  fmt::print("{:>8}{:>10}{:>10.4f}{:>10.4f}{:>10.0f}{:>6.0f} %\n", record.step, loss, record.loss,
             record.loss_per_byte, tokens_per_second(), 100 * share_of_peak());
  finish_stdout();
  loss_sum_ = 0;
  losses_ = 0;
}

}  // namespace rapt::cli

#pragma once
// What `rapt train` says of a run on texts while it trains.
//
//    step      loss  held out  per byte  tokens/s    peak
//     250    2.4101    2.4302    2.4302      8123    35 %
//
// `loss` is the mean of the updates since the last evaluation. The rate counts updates alone, and
// `peak` is its share of the fused multiply-adds that the threads could make.
#include <chrono>
#include <string>

#include "cli/output/progress.h"
#include "rapt/training/trainer.h"

namespace rapt::cli {

class TrainingStatus {
 public:
  // `speaks`: prints the table on standard output and the line on the terminal.
  TrainingStatus(const training::Trainer& trainer, int threads, bool speaks);

  void add(const training::StepRecord& record);
  void add(const training::EvaluationRecord& record);
  // The next update begins now; what was before counts for no rate.
  void resume_clock() { last_ = Clock::now(); }
  // Removes the line from the terminal.
  void erase() { line_.erase(); }

  double tokens_per_second() const;
  double share_of_peak() const;  // 0 to 1

 private:
  using Clock = std::chrono::steady_clock;
  void show_line(const training::StepRecord& record);

  int64_t first_step_, steps_;    // of the run
  double tokens_, flops_, peak_;  // of an update; operations per second
  bool speaks_;
  ProgressLine line_;
  Clock::time_point last_;
  // Of the updates so far.
  double update_seconds_ = 0;
  int64_t updates_ = 0;
  // Of the updates since the last evaluation.
  double loss_sum_ = 0;
  int64_t losses_ = 0;
  double held_out_ = -1;  // the last held-out loss; -1: none so far
  int64_t memory_ = -1;   // bytes that the process held a few updates ago; -1: unknown
};

}  // namespace rapt::cli

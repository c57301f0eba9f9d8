#pragma once
// The loop of a run: steps, evaluations, and a checkpoint after each evaluation and at the end.
#include <functional>
#include <string>

#include "rapt/error.h"
#include "rapt/training/trainer.h"

namespace rapt::training {

// What a run reports. Each may be empty. They are called on the thread that trains.
struct TrainingCallbacks {
  std::function<void(const StepRecord&)> step = {};  // after each update
  std::function<void(const EvaluationRecord&)> evaluation =
      {};                                             // after each evaluation, before it is saved
  std::function<void(int64_t step)> checkpoint = {};  // it was written
  std::function<void(const Error& error)> save_failed = {};  // and training goes on
};

// How a run ended.
enum class TrainingEnd : uint8_t {
  finished,   // all steps are made
  cancelled,  // the cancel token of the trainer's context was set; a checkpoint was written
};

// Trains until the last step and saves into `folder`. A checkpoint that cannot be saved is reported
// and the next one tried; the last one, of the end or of a cancelled run, is an error.
//
// Throws Error(io) before the first step if the trainer has made none and the folder has a
// checkpoint already; Error(io) if the last checkpoint cannot be saved; Error(argument) if a loss
// is not finite, whereupon the last checkpoint remains.
TrainingEnd run_training(Trainer& trainer, const std::string& folder,
                         const TrainingCallbacks& callbacks = {});

}  // namespace rapt::training

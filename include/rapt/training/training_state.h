#pragma once
// training.json: what a run needs beside its model and optimiser to go on with the same bits.
// Windows, dropout and learning rates are functions of the step, so the step is the place in the
// texts and in the schedule.
//
//   {"schema": "rapt.training/1", "step": 100, "evaluated_step": 100,
//    "text_hash": "cbf29ce484222325", "best": {"step": 50, "loss": 1.9}, "settings": {...}}
//
// `text_hash` has 16 hexadecimal digits, `best` is null before the first evaluation, `settings` has
// the members of TrainingSettings. Other keys are ignored.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rapt/training/training_settings.h"

namespace rapt::training {

// The evaluation with the least loss.
struct BestEvaluation {
  int64_t step = 0;
  double loss = 0;  // nats per token
};

// What training.json holds.
struct TrainingState {
  int64_t step = 0;                         // updates so far
  int64_t evaluated_step = 0;               // of the last evaluation; 0: none so far
  uint64_t text_hash = 0;                   // TrainingData::text_hash()
  std::optional<BestEvaluation> best = {};  // absent before the first evaluation
  TrainingSettings settings = {};           // of the whole run
};

// The text of a training.json. Doubles are written such that reading gives the same bits.
std::string write_training_state(const TrainingState& state);

// `file` is for messages. The limits are those of configs (rapt/checkpoint/model_config.h). Throws
// Error(format) for text that is no training.json, with the key; Error(unsupported) for another
// schema.
TrainingState read_training_state(std::string_view json, const std::string& file = "training.json");

}  // namespace rapt::training

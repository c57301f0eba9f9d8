#pragma once
// The memory that a Trainer takes, told before it is taken:
//
//   weights      parameters, in the dtype of the settings
//   gradients    f32
//   moments      two of AdamW, f32; with bf16 also an f32 copy of the weights
//   activations  batch block rows: what each block keeps for the backward pass, and the gradients
//                of the block that it is in; logits where they are kept (language_model.h)
//
// It leaves out the workspaces of single calls, which grow with the threads and not with the model,
// and the tokens of the texts.
#include <string>

#include "rapt/nn/language_model.h"
#include "rapt/training/training_settings.h"

namespace rapt::training {

// Bytes. Doubles, because the sizes that a user gives need not fit 64 bits.
struct TrainingMemory {
  double weights = 0;      // of the parameters
  double gradients = 0;    // of the same
  double moments = 0;      // of AdamW, and f32 copies beside bf16
  double activations = 0;  // of a batch

  // The sum.
  double total() const noexcept { return weights + gradients + moments + activations; }
};

// Throws Error(argument) as nn::complete_spec().
TrainingMemory training_memory(const nn::LanguageModelSpec& spec, const TrainingSettings& settings);

// The same of a checkpoint, from its config.json and training.json alone. Throws Error as
// load_checkpoint() does for these.
TrainingMemory training_memory(const std::string& checkpoint);

}  // namespace rapt::training

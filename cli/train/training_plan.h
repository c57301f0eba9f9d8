#pragma once
// The sizes of a run: what the user gave, and for the rest what choose_sizes() takes for the text,
// the time and the speed that probes have on this machine. They take half a second.
#include "cli/train/train_arguments.h"
#include "cli/train/training_texts.h"

namespace rapt::cli {

// `model.vocabulary` is only what the tokenizer may have at most.
training::ChosenSizes plan_training(const TextRunSettings& given, const TrainingTexts& texts);

}  // namespace rapt::cli

#pragma once
// The sizes of a run: what the user gave, and for the rest what choose_sizes() takes for the text,
// the time and the speed that probes have on this machine. They take a second for small models,
// and at least six updates.
#include "cli/train/train_arguments.h"
#include "cli/train/training_texts.h"

namespace rapt::cli {

training::TokenizerChoice plan_tokenizer(const TextRunSettings& given, const TrainingTexts& texts);

// `data`: the texts by that tokenizer.
training::ChosenSizes plan_training(const TextRunSettings& given, const TrainingTexts& texts,
                                    const training::TrainingData& data);

}  // namespace rapt::cli

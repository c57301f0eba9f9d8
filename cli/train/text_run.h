#pragma once
// `rapt train FILE...`: a language model trained on texts, in a folder of checkpoints.
#include "cli/train/train_arguments.h"

namespace rapt::cli {

// Throws Failure and Error; Failure(interrupted) when Ctrl-C has stopped the run.
void run_on_texts(const TrainArguments& arguments);

}  // namespace rapt::cli

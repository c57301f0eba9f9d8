#pragma once
// A short text of the model that is trained, which begins behind a line break or, where the texts
// have none, as the first of them does.
#include <string>

#include "rapt/training/trainer.h"

namespace rapt::cli {

// `length`: tokens. `context` must have no cancel token: a sample takes a moment, and
// run_training() must not see it cancelled.
std::string training_sample(const training::Trainer& trainer, int64_t length,
                            const Context& context);

}  // namespace rapt::cli

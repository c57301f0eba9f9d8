#pragma once
// `rapt train --example NAME`: runs that need no text, each with a goal.
#include <string>
#include <vector>

#include "cli/train/train_arguments.h"

namespace rapt::cli {

std::vector<std::string> train_example_names();

// Throws usage errors, for a name that is none and for what an example has no use for.
void check_train_example(const TrainArguments& arguments);

// Throws Failure(differs) if the run misses its goal.
void run_train_example(const TrainArguments& arguments);

}  // namespace rapt::cli

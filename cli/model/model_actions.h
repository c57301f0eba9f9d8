#pragma once
// What `rapt model` does, an action per file.
#include "cli/model/model_arguments.h"

namespace rapt::cli {

void run_model_info(const ModelArguments& arguments);
void run_model_attend(const ModelArguments& arguments, const ModelSettings& settings);
void run_model_embed(const ModelArguments& arguments, const ModelSettings& settings);

}  // namespace rapt::cli

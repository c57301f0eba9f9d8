#pragma once
// Language models in folders, as Hugging Face transformers has them: config.json and
// model.safetensors, or, in shards, model.safetensors.index.json and the files that it names.
#include <string>
#include <vector>

#include "rapt/io/output_file.h"
#include "rapt/nn/language_model.h"

namespace rapt::checkpoint {

// The spec of a model, without its tensors: what it needs can be told before memory is taken for
// it. Throws Error as read_model_config() and open_safetensors(); Error(format) for a config whose
// matrices have more elements than the tensors.
nn::LanguageModelSpec load_model_spec(const std::string& folder);

// Reads a model. `dtype`: of its parameters; tensors of another one are converted. `frozen`:
// without gradients, for a model that is not trained. Throws Error as
// read_model_config(), open_safetensors() and load_model_tensors(), with the name of the file;
// Error(io) for a folder that lacks one.
nn::LanguageModel load_model(const std::string& folder, DType dtype = DType::f32,
                             nn::Frozen frozen = nn::Frozen::no);

// The tokens that end a text: those of generation_config.json where that has some, as transformers
// generates, else those of config.json. Throws as read_stop_tokens().
std::vector<int64_t> load_stop_tokens(const std::string& folder);

// Writes model.safetensors and config.json into a folder, which is made if its parent exists. Both
// files appear whole or not at all. Throws Error(io), also for files that exist if `overwrite` is
// no; Error(unsupported) as write_model_config().
void save_model(const std::string& folder, const nn::LanguageModel& model,
                Overwrite overwrite = Overwrite::no);

}  // namespace rapt::checkpoint

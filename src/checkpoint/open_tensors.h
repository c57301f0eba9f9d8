#pragma once
// The tensors of a folder of Hugging Face transformers.
#include <string>
#include <utility>

#include "rapt/io/tensor_file.h"

namespace rapt::checkpoint {

// model.safetensors, or the shards of model.safetensors.index.json; and the path of the file that
// names them. Throws Error(io): the folder has neither; Error as open_safetensors().
std::pair<TensorFile, std::string> open_tensors(const std::string& folder);

}  // namespace rapt::checkpoint

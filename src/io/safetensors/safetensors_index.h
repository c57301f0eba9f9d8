#pragma once
// model.safetensors.index.json: which shard of a model holds which tensor.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rapt {

// Tensor and shard, in the order of the index. Shards are plain file names, tensors are named once.
// `file` is for messages. Throws Error(format, overflow).
std::vector<std::pair<std::string, std::string>> parse_safetensors_index(std::string_view json,
                                                                         const std::string& file);

}  // namespace rapt

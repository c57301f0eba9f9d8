#pragma once
// Rotary embeddings of a config: rope_parameters of transformers 5, rope_theta and rope_scaling of
// earlier versions.
#include "checkpoint/config_object.h"
#include "rapt/rotary.h"

namespace rapt::checkpoint {

// `context`: max_position_embeddings. `is_limit`: does the model reject all longer texts?
// "dynamic", which changes frequencies in these alone, is then "default", and else rejected. Throws
// Error(format, unsupported).
Rotary read_rotary(const ConfigObject& config, int64_t context, bool is_limit);

// The rope_parameters of an embedding of all of head_dim. Throws Error(unsupported).
nlohmann::ordered_json write_rotary(const Rotary& rotary, int64_t head_dim);

}  // namespace rapt::checkpoint

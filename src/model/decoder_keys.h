#pragma once
// Which keys of a decoder's config.json are read, which change no number, and which rapt lacks.
#include "checkpoint/config_object.h"

namespace rapt::model {

// Throws Error(unsupported) for a key that changes numbers in a way that rapt lacks: quantised
// weights, mixtures of experts, code of the folder, parts of other models.
void refuse_unsupported_keys(const checkpoint::ConfigObject& config);

// The keys that are neither read nor known to change no number.
std::vector<std::string> unknown_keys(const checkpoint::ConfigObject& config);

}  // namespace rapt::model

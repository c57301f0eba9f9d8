#pragma once
// Where the model lies in the folder that a user names.
#include <string>

namespace rapt::cli {

// The folder of the model: of a run of `rapt train`, its checkpoint of the least held-out loss.
std::string model_folder_of(const std::string& folder);

}  // namespace rapt::cli

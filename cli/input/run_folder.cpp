#include "cli/input/run_folder.h"

#include <filesystem>
#include <system_error>

#include "rapt/training/training_checkpoint.h"

namespace rapt::cli {

std::string model_folder_of(const std::string& folder) {
  const std::string best = folder + training::kBest;
  std::error_code ignored;
  const bool of_run = !std::filesystem::exists(folder + "/config.json", ignored) &&
                      std::filesystem::exists(best + "/config.json", ignored);
  return of_run ? best : folder;
}

}  // namespace rapt::cli

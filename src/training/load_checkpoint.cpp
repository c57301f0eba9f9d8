// Reads checkpoints.
#include <filesystem>
#include <memory>

#include "checkpoint/config_object.h"
#include "io/system_failure.h"
#include "rapt/checkpoint/model_files.h"
#include "rapt/io/safetensors.h"
#include "rapt/text/tokenizer_file.h"
#include "rapt/training/training_checkpoint.h"
#include "rapt/training/training_memory.h"
#include "training/checkpoint_names.h"

namespace rapt::training {
namespace {

// The folder that a link names now: all files are of one checkpoint, also if the link moves.
std::string resolved_folder(const std::string& path) {
  std::error_code failure;
  const std::filesystem::path resolved = std::filesystem::canonical(path, failure);
  if (failure) fail_on(path, "expected the folder of a checkpoint: " + failure.message());
  return resolved.string();
}

// `path`: of the folder, for messages.
TrainingState load_state(const std::string& folder, const std::string& path) {
  const std::string file = folder + kStateFile;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    fail_on(path, "expected a checkpoint of a training run; the folder has no training.json");
  return read_training_state(checkpoint::read_config_text(file), file);
}

std::vector<std::pair<std::string, LoadedTensor>> load_optimizer(const std::string& path) {
  const TensorFile file = open_safetensors(std::make_shared<InputFile>(path));
  std::vector<std::pair<std::string, LoadedTensor>> tensors;
  for (const StoredTensor& stored : file.tensors) tensors.emplace_back(stored.name, load(stored));
  return tensors;
}

}  // namespace

bool has_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(folder + kLatest, ignored));
}

TrainingMemory training_memory(const std::string& path) {
  const std::string folder = resolved_folder(path);
  const TrainingState state = load_state(folder, path);
  return training_memory(checkpoint::load_model_spec(folder), state.settings);
}

Checkpoint load_checkpoint(const std::string& path) {
  const std::string folder = resolved_folder(path);
  const TrainingState state = load_state(folder, path);
  return {.state = state,
          .model = checkpoint::load_model(folder, state.settings.dtype),
          .tokenizer = text::read_tokenizer(folder),
          .optimizer = load_optimizer(folder + kOptimizerFile)};
}

}  // namespace rapt::training

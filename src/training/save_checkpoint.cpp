// Writes checkpoints, and removes those that no link names.
#include <cstdio>
#include <filesystem>

#include "rapt/checkpoint/model_files.h"
#include "rapt/io/safetensors.h"
#include "rapt/text/tokenizer_file.h"
#include "rapt/training/training_checkpoint.h"
#include "training/checkpoint_names.h"
#include "training/durable_folder.h"

namespace rapt::training {
namespace {

constexpr const char* kPartial = "/.partial";  // a checkpoint that is being written
constexpr const char* kRemoved = "/.removed";  // one that is being removed
constexpr const char* kPrefix = "step-";

// "step-000100", or with a count behind it if there is one.
std::string unused_name(const std::string& folder, int64_t step) {
  char first[32];
  std::snprintf(first, sizeof first, "%s%06lld", kPrefix, static_cast<long long>(step));
  std::string name = first;
  std::error_code ignored;
  for (int count = 2; std::filesystem::exists(folder + "/" + name, ignored); ++count)
    name = std::string(first) + "-" + std::to_string(count);
  return name;
}

void write_files(const std::string& folder, const CheckpointView& checkpoint) {
  make_folder(folder);
  checkpoint::save_model(folder, checkpoint.model);
  text::write_tokenizer(checkpoint.tokenizer, folder, Overwrite::no);
  OutputFile optimizer(folder + kOptimizerFile, Overwrite::no);
  write_safetensors([&](const void* data, int64_t bytes) { optimizer.write(data, bytes); },
                    checkpoint.optimizer);
  optimizer.commit();
  OutputFile state(folder + kStateFile, Overwrite::no);
  const std::string json = write_training_state(checkpoint.state);
  state.write(json.data(), std::ssize(json));
  state.commit();
  sync_folder(folder);
}

// Removes all checkpoints but those that the links name. One that is being removed has no name of a
// checkpoint any more.
void remove_others(const std::string& folder) {
  const std::string latest = link_target(folder + kLatest), best = link_target(folder + kBest);
  std::error_code failure;
  std::vector<std::string> others;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kPrefix) && name != latest && name != best) others.push_back(name);
  }
  for (const std::string& name : others) {
    remove_folder(folder + kRemoved);
    std::filesystem::rename(folder + "/" + name, folder + kRemoved, failure);
    remove_folder(folder + kRemoved);
  }
}

}  // namespace

void save_checkpoint(const std::string& folder, const CheckpointView& checkpoint, bool best) {
  make_folder(folder);
  const std::string partial = folder + kPartial;
  remove_folder(partial);  // of a process that was killed
  const std::string name = unused_name(folder, checkpoint.state.step);
  try {
    write_files(partial, checkpoint);
    rename_folder(partial, folder + "/" + name);
  } catch (...) {
    remove_folder(partial);
    throw;
  }
  sync_folder(folder);
  replace_link(folder, kLatest, name);
  if (best) replace_link(folder, kBest, name);
  sync_folder(folder);
  remove_others(folder);
}

}  // namespace rapt::training

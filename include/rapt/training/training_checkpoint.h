#pragma once
// Checkpoints of a run in a folder:
//
//   FOLDER/step-000100/   model.safetensors, config.json           opened by transformers
//                         tokenizer.json, tokenizer_config.json
//                         optimizer.safetensors                    moments, counts, f32 copies
//                         training.json                            training_state.h
//   FOLDER/latest         a symbolic link to the last checkpoint
//   FOLDER/best           a symbolic link to that of the least held-out loss
//
// A checkpoint is written as FOLDER/.partial and flushed to the disk with its folder. It is then
// renamed, and `latest` and `best` are replaced by a rename each. So both always name whole
// checkpoints, whenever the process or the machine stops. Checkpoints that neither of them names
// are removed at last. A second checkpoint of a step is called step-000100-2.
//
// One process at a time may save into a folder.
#include <string>
#include <utility>
#include <vector>

#include "rapt/io/tensor_file.h"
#include "rapt/nn/language_model.h"
#include "rapt/text/tokenizer.h"
#include "rapt/training/training_state.h"

namespace rapt::training {

// The names of the links, to be put behind that of the folder.
inline constexpr const char* kLatest = "/latest";  // to the last checkpoint
inline constexpr const char* kBest = "/best";      // to that of the least held-out loss

// What a checkpoint is written from.
struct CheckpointView {
  const TrainingState& state;          // training.json
  const nn::LanguageModel& model;      // model.safetensors, config.json
  const text::Tokenizer& tokenizer;    // tokenizer.json, tokenizer_config.json
  std::vector<NamedTensor> optimizer;  // optimizer.safetensors
};

// Writes a checkpoint into a folder, which is made if its parent exists. `best`: `best` names it,
// too. Throws Error(io), for example when the disk is full. The earlier checkpoints are then as
// they were, and training may go on.
void save_checkpoint(const std::string& folder, const CheckpointView& checkpoint, bool best);

// Does FOLDER/latest exist?
bool has_checkpoint(const std::string& folder);

// What was read from a checkpoint.
struct Checkpoint {
  TrainingState state;        // training.json
  nn::LanguageModel model;    // of the dtype of state.settings
  text::Tokenizer tokenizer;  // with which TrainingData is made again
  // optimizer.safetensors: views of the file where it can be mapped.
  std::vector<std::pair<std::string, LoadedTensor>> optimizer;
};

// `path`: FOLDER/latest, FOLDER/best or FOLDER/step-000100. Throws Error(io) for a folder without
// training.json or another file; Error as read_training_state(), load_model(), read_tokenizer() and
// open_safetensors().
Checkpoint load_checkpoint(const std::string& path);

}  // namespace rapt::training

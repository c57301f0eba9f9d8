#include "rapt/checkpoint/model_files.h"

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/config_object.h"
#include "checkpoint/open_tensors.h"
#include "io/quoted.h"
#include "rapt/checkpoint/model_config.h"
#include "rapt/checkpoint/model_tensors.h"
#include "rapt/io/safetensors.h"

namespace rapt::checkpoint {
namespace {

constexpr const char* kConfigFile = "/config.json";
constexpr const char* kGenerationFile = "/generation_config.json";
constexpr const char* kTensorFile = "/model.safetensors";

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Rejects a config whose matrices have more elements than the file, before memory is taken for
// them.
void check_sizes(const nn::LanguageModelSpec& spec, const std::string& config,
                 const TensorFile& file) {
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const bool gpt2 = spec.layout == nn::LanguageModelLayout::gpt2;
  const double features = number(spec.features), heads = number(spec.heads);
  const double head_dim = spec.head_dim > 0 ? number(spec.head_dim) : features / heads;
  const double kv_heads = spec.kv_heads > 0 ? number(spec.kv_heads) : heads;
  const double hidden = spec.hidden_features > 0 ? number(spec.hidden_features) : 4 * features;
  const double layer = features * (2 * head_dim * (heads + kv_heads) + (gpt2 ? 2 : 3) * hidden);
  const double needed =
      number(spec.vocabulary) * features * (spec.tied_head ? 1 : 2) + number(spec.layers) * layer;
  double stored = 0;
  for (const StoredTensor& tensor : file.tensors) {
    double count = 1;
    for (const int64_t length : tensor.shape) count *= number(length);
    stored += count;
  }
  // Both are rounded.
  if (needed > stored * (1 + 1e-9))
    throw Error(ErrorCode::format, path_text(config) + ": its matrices have " +
                                       std::to_string(needed) + " elements, the tensors of the " +
                                       "folder " + std::to_string(stored) +
                                       "; expected the config of these tensors");
}

// An error that says which file it is about.
template <class Call>
auto naming(const std::string& path, const Call& call) {
  try {
    return call();
  } catch (const Error& e) {
    throw Error(e.code(), path_text(path) + ": " + e.what(), e.argument());
  }
}

}  // namespace

nn::LanguageModelSpec load_model_spec(const std::string& folder) {
  const std::string config = folder + kConfigFile;
  const nn::LanguageModelSpec spec = read_model_config(read_config_text(config), config);
  check_sizes(spec, config, open_tensors(folder).first);
  return naming(config, [&] { return complete_spec(spec); });
}

nn::LanguageModel load_model(const std::string& folder, DType dtype, nn::Frozen frozen) {
  const std::string config = folder + kConfigFile;
  const nn::LanguageModelSpec spec = load_model_spec(folder);
  const auto [file, path] = open_tensors(folder);
  nn::LanguageModel model =
      naming(config, [&] { return make_language_model(spec, dtype, frozen); });
  std::vector<LoadedTensor> loaded;
  std::vector<NamedTensor> tensors;
  loaded.reserve(file.tensors.size());
  for (const StoredTensor& stored : file.tensors) {
    loaded.push_back(load(stored));
    tensors.push_back({stored.name, loaded.back().view()});
  }
  naming(path, [&] { load_model_tensors(model, tensors); });
  return model;
}

std::vector<int64_t> load_stop_tokens(const std::string& folder) {
  const std::string generation = folder + kGenerationFile, config = folder + kConfigFile;
  std::vector<int64_t> tokens;
  if (exists(generation)) tokens = read_stop_tokens(read_config_text(generation), generation);
  return tokens.empty() ? read_stop_tokens(read_config_text(config), config) : tokens;
}

void save_model(const std::string& folder, const nn::LanguageModel& model, Overwrite overwrite) {
  const std::string config = write_model_config(model.spec, model.dtype());
  std::error_code failure;
  std::filesystem::create_directory(folder, failure);
  if (failure)
    throw Error(ErrorCode::io,
                path_text(folder) + ": the folder cannot be made: " + failure.message());
  OutputFile tensors(folder + kTensorFile, overwrite), text(folder + kConfigFile, overwrite);
  // from_pretrained() reads files that say "pt" alone.
  const std::pair<std::string, std::string> metadata[] = {{"format", "pt"}};
  write_safetensors([&](const void* data, int64_t bytes) { tensors.write(data, bytes); },
                    model_tensors(model), metadata);
  text.write(config.data(), std::ssize(config));
  tensors.commit();
  text.commit();
}

}  // namespace rapt::checkpoint

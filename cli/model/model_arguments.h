#pragma once
// The options of `rapt model`.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/output/picture.h"
#include "rapt/attention.h"
#include "rapt/context.h"

namespace rapt::cli {

enum class ModelAction : uint8_t { info, attend, embed };
inline constexpr const char* kModelActions[] = {"info", "attend", "embed"};

// As the user typed them.
struct ModelArguments {
  std::string action, folder, layers, heads, rows, map, top_k, find, output, threads;
  std::vector<std::string> texts;
  PictureArguments picture;
  bool truncate = false, hide_special = false, similar = false, json = false, force = false;
};

// The arguments as numbers, checked as far as they can be without the model.
struct ModelSettings {
  ModelAction action = ModelAction::info;
  std::vector<int64_t> layers, heads;  // empty: all
  std::optional<MapRequest> map;
  int64_t top_k = 0;
  std::string find_from, find_to;  // of --find; empty: not given
  Context context;
};

void add_model_options(CLI::App& app, ModelArguments& arguments);

// Throws usage errors.
ModelSettings model_settings(const ModelArguments& arguments);

}  // namespace rapt::cli

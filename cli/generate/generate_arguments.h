#pragma once
// The options of `rapt generate`.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rapt/context.h"
#include "rapt/generation/generator.h"

namespace rapt::cli {

// As the user typed them.
struct GenerateArguments {
  std::string folder, prompt_file;
  std::vector<std::string> prompts;
  std::string length, temperature, top_k, top_p, min_p, seed, num, when_full;
  std::vector<std::string> stop;
  std::string attention, attention_layer, attention_head;
  std::string dtype, cache_dtype, threads;
  bool json = false, force = false, invariant = false;
};

// The arguments as numbers, checked.
struct GenerateSettings {
  generation::GeneratorOptions options;  // without what depends on the model
  std::optional<int64_t> layer;          // of --attention; absent: the last
  int64_t head = 0;
  DType dtype = DType::f32;
  bool cache_as_stored = false;  // keys and values in the type of the weights
  Context context;
};

void add_generate_options(CLI::App& app, GenerateArguments& arguments);

// Throws usage errors.
GenerateSettings generate_settings(const GenerateArguments& arguments);

// Is this value of --attention a picture, not a file of tensors?
bool is_picture(const std::string& path);

}  // namespace rapt::cli

#pragma once
// The options of `rapt attend`: their names, and which of them go together.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "picture.h"

namespace rapt::cli {

struct AttendArguments {
  std::string query, key, value, text, dim, heads;
  std::string bias, scale, dtype, normalizer = "softmax", memory_limit;
  std::vector<std::string> masks;
  std::string output, weights, weights_rows, lse, head;
  std::vector<std::string> weights_heads;
  PictureArguments picture;
  bool json = false, force = false, peak = false;
};

// Adds the options, those too that are refused because their feature is not built.
void add_attend_options(CLI::App& app, AttendArguments& arguments);

// Refuses what is not built, unknown, missing or contradictory. Throws usage errors.
void check_attend_usage(const CLI::App& app, const AttendArguments& arguments);

}  // namespace rapt::cli

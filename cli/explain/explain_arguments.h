#pragma once
// The options of `rapt explain`: their names, and which combinations are valid.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/output/picture.h"
#include "rapt/tensor.h"

namespace rapt::cli {

struct ExplainArguments {
  std::string embeddings, w_query, w_key, w_value;
  std::string query, key, value;
  std::vector<std::string> masks, scores;
  std::string bias, bias_order, scale, dtype = "f32", normalizer = "softmax", npy_v2;
  std::string rotary, cosine, relative;  // the parameters, epsilon, the parameters
  bool has_rotary = false, has_cosine = false;
  PictureArguments picture;
  bool json = false, force = false;
};

// Adds the options.
void add_explain_options(CLI::App& app, ExplainArguments& arguments);

// Rejects options that are unknown, missing or contradictory. Throws usage errors.
void check_explain_usage(const CLI::App& app, ExplainArguments& arguments);

// Throws Failure for a matrix that is too large to be printed.
void check_small(const std::string& option, const Tensor& matrix);

}  // namespace rapt::cli

#pragma once
// The options of `rapt attend`: their names, and which of them go together.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/output/picture.h"
#include "cli/output/progress.h"
#include "rapt/attention.h"

namespace rapt::cli {

struct AttendArguments {
  std::string query, key, value, text, dim, heads;
  std::string bias, bias_order, scale, dtype, normalizer = "softmax", memory_limit;
  std::string rotary, query_start;  // the parameters of the embedding, the first position
  std::string cosine;               // epsilon
  bool has_rotary = false, has_cosine = false;
  std::string relative;  // the parameters of relative positions
  std::string softcap, output_dtype, precision = "auto", memory = "auto", threads, packed,
                                     packed_keys, dropout, seed;
  std::vector<std::string> masks, scores;
  std::string output, lse, weights, weights_rows, weights_pool, head;
  std::string stats_file, progress = "auto";
  std::string top_k, top_keys, top_weights, entropy, received;
  std::string grad_output, grad_lse, grad_query, grad_key, grad_value, grad_bias, grad_relative;
  std::vector<std::string> weights_heads;
  std::string npy_v2;
  PictureArguments picture;
  bool json = false, force = false, peak = false, plan = false, stats = false, invariant = false;
};

// A file of the command line that gets a tensor.
struct TensorTarget {
  const char* what;  // "top-weights": the option without its dashes
  const std::string* path;
};

// Those of --stats F, by the names that the tensors have there.
inline constexpr const char* kStatsTensors[] = {"top_k_keys", "top_k_weights", "entropy",
                                                "received"};

// In the order in which they are written, without those of --stats. Those that are not asked for
// have an empty path.
std::vector<TensorTarget> tensor_targets(const AttendArguments& arguments);

// Adds the options, those too that are refused because their feature is not built.
void add_attend_options(CLI::App& app, AttendArguments& arguments);

// Refuses what is not built, unknown, missing or contradictory. Throws usage errors.
void check_attend_usage(const CLI::App& app, AttendArguments& arguments);

// Throws usage errors for other words than those of --precision.
Precision precision_from(const std::string& name);

// Throws usage errors for other words than those of --progress.
ProgressStyle progress_style(const std::string& name);

}  // namespace rapt::cli

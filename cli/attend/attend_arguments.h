#pragma once
// The options of `rapt attend`: their names, and which combinations are valid.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/output/picture.h"
#include "cli/output/progress.h"
#include "rapt/attention.h"

namespace rapt::cli {

struct AttendArguments {
  std::string query, key, value, text, dim, heads;
  std::string bias, bias_order, scale, dtype, normalizer = "softmax", method, memory_limit;
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

// The tensors of --stats F, by their names in the file.
inline constexpr const char* kStatsTensors[] = {"top_k_keys", "top_k_weights", "entropy",
                                                "received"};

// The outputs in the order in which they are written, without those of --stats. An output that is
// not requested has an empty path.
std::vector<TensorTarget> tensor_targets(const AttendArguments& arguments);

void add_attend_options(CLI::App& app, AttendArguments& arguments);

// Rejects options that are unknown, missing or contradictory. Throws usage errors.
void check_attend_usage(const CLI::App& app, AttendArguments& arguments);

// Throws usage errors for other words than those of --precision.
Precision precision_from(const std::string& name);

// Throws usage errors for other words than those of --progress.
ProgressStyle progress_style(const std::string& name);

}  // namespace rapt::cli

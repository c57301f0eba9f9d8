#pragma once
// --grad-output and what follows from it: the gradients of a loss of which that file holds the
// gradient of the output.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/attend/attend_arguments.h"
#include "cli/attend/attend_problem.h"
#include "rapt/backward.h"

namespace rapt::cli {

// What is to be computed behind the output, read and checked before anything is.
struct GradientPlan {
  LoadedTensor d_output;  // [..., q_len, d_v], as the output
  LoadedTensor d_lse;     // [..., q_len], or absent
  BackwardRequest request;
  int64_t result_bytes = 0, workspace_bytes = 0;
};

// A gradient that is one number: of the scale, or of a real parameter of a score.
struct NumberGradient {
  std::string of;  // "scale", "softcap(30): cap"
  double value = 0;
};

// What is said about them.
struct GradientReport {
  bool computed = false;               // false: --plan, and all but the bytes is absent
  TensorView query, key, value, bias;  // absent if not asked for
  std::vector<std::pair<std::string, TensorView>> relative;  // of --relative, if asked for
  std::vector<NumberGradient> numbers;
  double wall_seconds = 0, cpu_seconds = 0;
  int64_t result_bytes = 0, workspace_bytes = 0;
};

// Throws usage errors for options of which one lacks another.
void check_gradient_options(const AttendArguments& arguments);

// Nothing without --grad-output. Refuses what does not fit, each with its option's name.
std::optional<GradientPlan> plan_gradients(const AttendArguments& arguments, const Problem& problem,
                                           TensorInput& files);

// The call, of whose `context` all is taken but the memory limit. `state` is that of the forward
// call with the problem's options.
Gradients compute_gradients(const GradientPlan& plan, const Problem& problem, Context context,
                            const AttentionState& state);

// `numbers` of a report: the scale's, then those of the scores.
std::vector<NumberGradient> number_gradients(const Problem& problem, const Gradients& gradients);

// Those of the tensors of --relative, by their names, in the order of the declaration.
std::vector<std::pair<std::string, TensorView>> relative_gradients(const Gradients& gradients);

nlohmann::ordered_json gradients_json(const GradientReport& report);  // docs/json.md

}  // namespace rapt::cli

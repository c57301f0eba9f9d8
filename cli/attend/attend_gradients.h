#pragma once
// --grad-output: the gradients of a loss whose output gradient is in that file.
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

// The requested gradients, read and checked before any computation.
struct GradientPlan {
  LoadedTensor d_output;  // [..., q_len, d_v], as the output
  LoadedTensor d_lse;     // [..., q_len], or absent
  BackwardRequest request;
  int64_t result_bytes = 0, workspace_bytes = 0;
};

// A gradient that is one number: of the scale, or of one element of a learned parameter.
struct NumberGradient {
  std::string of;  // "scale", "softcap(30): cap"
  double value = 0;
};

// The report about gradients.
struct GradientReport {
  bool computed = false;               // false: with --plan; then only the bytes are set
  TensorView query, key, value, bias;  // absent if not asked for
  std::vector<std::pair<std::string, TensorView>> relative;  // of --relative, if asked for
  std::vector<NumberGradient> numbers;
  double wall_seconds = 0, cpu_seconds = 0;
  int64_t result_bytes = 0, workspace_bytes = 0;
};

// Throws usage errors for options that are given without the option they need.
void check_gradient_options(const AttendArguments& arguments);

// Does nothing without --grad-output. Errors name the option.
std::optional<GradientPlan> plan_gradients(const AttendArguments& arguments, const Problem& problem,
                                           TensorInput& files);

// Runs the backward pass. The memory limit of `context` is ignored. `state` comes from the forward
// call with the problem's options.
Gradients compute_gradients(const GradientPlan& plan, const Problem& problem, Context context,
                            const AttentionState& state);

// The single-number gradients of a report: scale, score parameters, normaliser parameters.
std::vector<NumberGradient> number_gradients(const Problem& problem, const Gradients& gradients);

// The gradients of the tensors of --relative, by name, in the order of the declaration.
std::vector<std::pair<std::string, TensorView>> relative_gradients(const Gradients& gradients);

nlohmann::ordered_json gradients_json(const GradientReport& report);  // docs/json.md

}  // namespace rapt::cli

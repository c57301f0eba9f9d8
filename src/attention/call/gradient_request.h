#pragma once
// A backward call after validation: what is read beside the forward pass's inputs, what is written.
#include <span>

#include "attention/call/captures.h"
#include "attention/call/problem.h"
#include "rapt/backward.h"

namespace rapt {

// Which gradients are asked for, checked.
struct WantedGradients {
  bool query = false, key = false, value = false, bias = false, scale = false;
  bool score_parameters = false, normalizer_parameters = false;
  DType dtype = DType::f32;  // of d_query, d_key, d_value
  bool two_passes = false;
  int64_t score_parameter_count = 0;  // of all scores and heads (learned_parameters.h)
  int64_t head_parameter_count = 0;   // of all scores, those that one head uses
  int64_t parameter_counts[ScoreList::kMost] = {};  // [scores] the same of each score
  int64_t normalizer_parameter_count = 0;           // of the normaliser and all heads
  int64_t normalizer_head_parameter_count = 0;      // of the normaliser, those that one head uses
  // Of options.relative.
  bool key_rows = false, query_rows = false, value_rows = false;
  bool content_bias = false, position_bias = false;
  bool query_rows_sums = false;  // d_scale is found by them, too

  // Are the products needed that lead to the gradients of scores?
  bool d_scores() const noexcept {
    return query || key || bias || scale || score_parameters || key_rows || query_rows ||
           query_biases();
  }
  // Sums of d_query? d_scale is found by them, and what biases of queries get.
  bool query_sums() const noexcept { return query || scale || query_biases(); }
  bool query_biases() const noexcept { return content_bias || position_bias; }
  // Sums over pairs of the same distance?
  bool tables() const noexcept { return key_rows || query_rows_sums || value_rows; }
};

// Throws Error(argument, dtype, unsupported).
WantedGradients wanted_gradients(const Problem& problem, const AttentionOptions& options,
                                 const BackwardRequest& request);

// Fills in the numbers of the scores.
void count_parameters(std::span<const ScoreRef> scores, WantedGradients& wanted);

// What the backward pass reads beside query, key, value and bias. Members without `data` are
// absent.
struct GradientInputs {
  Operand output, d_output;        // row = query, dim = value_dim
  Operand statistic, d_statistic;  // row = query
  Operand d_weights;               // row = requested row, dim = key; lead strides: of chosen heads
  RequestedWeights weights;        // which rows d_weights has
};

// What it writes. Members without `data` are not wanted, or empty.
struct GradientTargets {
  Operand query, key, value;  // row = position, dim = dimension
  Operand bias;               // row = query, dim = key; 0 where it is broadcast
  double* scale = nullptr;
  double* score_parameters = nullptr;
  int64_t score_parameters_stride = 0;
  double* normalizer_parameters = nullptr;
  int64_t normalizer_parameters_stride = 0;
  Operand key_rows, query_rows, value_rows;  // row = distance, dim = dimension
  Operand content_bias, position_bias;       // dim = dimension
};

// d_score_parameters: set to 0; then, of one head, `cells` sums [head_parameter_count] are added.
// Likewise d_normalizer_parameters.
void add_normalizer_parameters(
    const Problem& problem, const NormalizerRef& normalizer, const WantedGradients& wanted,
    int64_t cells, const double* sums /* [heads][cells][normalizer_head_parameter_count] */,
    const GradientTargets& targets);
void clear_parameter_gradients(const GradientTargets& targets, const WantedGradients& wanted);
void add_score_parameters_of_head(const Problem& problem, std::span<const ScoreRef> scores,
                                  const WantedGradients& wanted, int64_t head, int64_t cells,
                                  const double* sums /* [cells][head_parameter_count] */,
                                  const GradientTargets& targets);

// Shapes of the gradients: [0] d_query to [11] d_position_bias, in the order of
// GradientOutputs.
struct GradientSpec {
  const char* name;
  TensorView GradientOutputs::*view;
  Tensor Gradients::*tensor;
  bool wanted;
  DType dtype;
  int rank;
  int64_t shape[kMaxRank + 2];  // [rank]

  Shape dims() const { return {shape, static_cast<size_t>(rank)}; }
};
inline constexpr int kGradients = 12;
void describe_gradients(const Problem& problem, const WantedGradients& wanted,
                        const TensorView& query, const TensorView& key, const TensorView& value,
                        const AttentionOptions& options, GradientSpec (&specs)[kGradients]);

// The shape of what there is per query: [..., q_len] or, with `last` {q_len, dims}, rows.
struct RowShape {
  int64_t lengths[kMaxRank + 2];
  int rank;

  RowShape(const Problem& problem, std::initializer_list<int64_t> last);
  operator Shape() const { return {lengths, static_cast<size_t>(rank)}; }
};

// Checks a tensor that is read. Throws Error(shape, dtype, argument, overflow).
void check_read(const char* name, const TensorView& view, Shape expected, DType dtype);
// The same for a tensor per query, of which `operand` becomes the view; an empty one has no data.
void take_rows(const char* name, const TensorView& view, const RowShape& shape, DType dtype,
               bool matrix, Operand& operand);

// Throws Error(unsupported) for a normaliser without a number per row, of which `name` would be the
// gradient.
void require_statistic(const char* name, const NormalizerRef& normalizer);

// What the forward pass left: output and statistic. Throws as check_gradient_inputs().
void check_state(const Problem& problem, const AttentionState& state, GradientInputs& inputs);

// Throws Error(argument, shape, dtype, overlap, overflow).
GradientInputs check_gradient_inputs(const Problem& problem, const AttentionOptions& options,
                                     const BackwardInputs& inputs);
GradientTargets check_gradient_outputs(const Problem& problem,
                                       const GradientSpec (&specs)[kGradients],
                                       const AttentionOptions& options,
                                       const BackwardInputs& inputs, const GradientOutputs& outputs,
                                       std::span<const std::byte> workspace);

}  // namespace rapt

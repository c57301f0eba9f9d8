#pragma once
// A backward call after validation: which gradients are requested, which tensors it reads beside
// the inputs of the forward pass, and which it writes.
#include <span>

#include "attention/call/captures.h"
#include "attention/call/checked_call.h"
#include "rapt/backward.h"

namespace rapt {

// The requested gradients, after validation.
struct WantedGradients {
  bool query = false, key = false, value = false, bias = false, scale = false;
  bool score_parameters = false, normalizer_parameters = false;
  DType dtype = DType::f32;  // of d_query, d_key, d_value
  bool two_passes = false;
  int64_t score_parameter_count = 0;  // learned parameters of all scores and heads
  int64_t head_parameter_count = 0;   // learned parameters of all scores that one head uses
  int64_t parameter_counts[ScoreList::kMost] = {};  // [scores] the same per score
  int64_t normalizer_parameter_count = 0;       // learned parameters of the normaliser, all heads
  int64_t normalizer_head_parameter_count = 0;  // those that one head uses
  // Gradients of options.relative.
  bool key_rows = false, query_rows = false, value_rows = false;
  bool content_bias = false, position_bias = false;
  bool query_rows_sums = false;  // d_scale is computed from the sums of query_rows
  HeadRange heads;               // a part of the heads; count 0: all

  // Whether gradients of the scores are needed.
  bool d_scores() const noexcept {
    return query || key || bias || scale || score_parameters || key_rows || query_rows ||
           query_biases();
  }
  // Whether sums of d_query are needed: d_scale and gradients of query biases are computed from
  // them.
  bool query_sums() const noexcept { return query || scale || query_biases(); }
  bool query_biases() const noexcept { return content_bias || position_bias; }
  // Whether any gradient of options.relative is wanted.
  bool relative() const noexcept { return key_rows || query_rows || value_rows || query_biases(); }
  // Whether sums over pairs of equal distance are needed.
  bool tables() const noexcept { return key_rows || query_rows_sums || value_rows; }
};

// Checks a request. Throws Error(argument, dtype, unsupported).
WantedGradients wanted_gradients(const CheckedCall& call, const BackwardRequest& request);

// Counts the learned parameters of the scores.
void count_parameters(std::span<const ScoreRef> scores, WantedGradients& wanted);

// The tensors that the backward pass reads beside query, key, value and bias. A member without
// `data` is absent.
struct GradientInputs {
  Operand output, d_output;        // row = query, dim = value_dim
  Operand statistic, d_statistic;  // row = query
  Operand d_weights;               // row = requested row, dim = key; lead strides: of chosen heads
  RequestedWeights weights;        // the rows of d_weights
};

// Gradients of learned parameters, in their order (learned_parameters.h).
struct ParameterTarget {
  double* data = nullptr;
  int64_t stride = 0;
};

// The tensors that the backward pass writes. A member without `data` is not requested, or empty.
struct GradientTargets {
  Operand query, key, value;  // row = position, dim = dimension
  Operand bias;               // row = query, dim = key; 0 where it is broadcast
  double* scale = nullptr;
  ParameterTarget score_parameters, normalizer_parameters;
  Operand key_rows, query_rows, value_rows;  // row = distance, dim = dimension
  Operand content_bias, position_bias;       // dim = dimension
};

// Clears the gradients of the learned parameters of scores, or of the normaliser, and adds `sums`
// [heads][cells][parameters of a head] to them, head by head.
void add_parameter_gradients(const Problem& problem, std::span<const ScoreRef> scores,
                             int64_t cells, const double* sums, const ParameterTarget& target);
void add_parameter_gradients(const Problem& problem, std::span<const NormalizerRef> normalizer,
                             int64_t cells, const double* sums, const ParameterTarget& target);

// Of [0] d_query to [11] d_position_bias, in the order of GradientOutputs.
using GradientSpec = ResultSpec<GradientOutputs, Gradients>;
inline constexpr int kGradients = 12;
void describe_gradients(const CheckedCall& call, const WantedGradients& wanted,
                        GradientSpec (&specs)[kGradients]);

// The shape of a tensor with one number per query, [..., q_len], or, with `last` {q_len, dims},
// with one row per query.
struct RowShape {
  int64_t lengths[kMaxRank + 2];
  int rank;

  RowShape(const Problem& problem, std::initializer_list<int64_t> last);
  operator Shape() const { return {lengths, static_cast<size_t>(rank)}; }
};

// Checks an input tensor. Throws Error(shape, dtype, argument, overflow).
void check_read(const char* name, const TensorView& view, Shape expected, DType dtype);
// The same for a tensor per query, which becomes `operand`; an empty tensor gets no data.
void take_rows(const char* name, const TensorView& view, const RowShape& shape, DType dtype,
               bool matrix, Operand& operand);

// Throws Error(unsupported) if the normaliser has no statistic, whose gradient `name` would be.
void require_statistic(const char* name, const NormalizerRef& normalizer);

// Checks the forward state: output and statistic. Throws as check_gradient_inputs().
void check_state(const Problem& problem, const AttentionState& state, GradientInputs& inputs);

// Throws Error(argument, shape, dtype, overlap, overflow).
GradientInputs check_gradient_inputs(const CheckedCall& call, const BackwardInputs& inputs,
                                     const HeadRange& heads);
GradientTargets check_gradient_outputs(const CheckedCall& call,
                                       const GradientSpec (&specs)[kGradients],
                                       const HeadRange& heads, const BackwardInputs& inputs,
                                       const GradientOutputs& outputs,
                                       std::span<const std::byte> workspace);

}  // namespace rapt

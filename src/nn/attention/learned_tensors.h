#pragma once
// The tensors of attention's options that may be learned, and where their gradients are among those
// that the backward call returns.
#include <cmath>
#include <vector>

#include "rapt/backward.h"
#include "rapt/nn/multi_head_attention.h"

namespace rapt::nn {

enum class OptionKind : uint8_t { score, normalizer, relative, bias };

// A tensor of the options.
struct OptionTensor {
  OptionKind kind;
  const char* name;
  const TensorView& view;
  int64_t first;                          // score, normalizer: of its flat gradients in that kind
  TensorView GradientOutputs::*gradient;  // of relative and bias
};

// The numbers of flat gradients (backward.h).
struct ParameterCounts {
  int64_t scores = 0, normalizer = 0;
};

// A variant's learned numbers count in the order of its declaration: its real parameters that are
// given, and all elements of its tensors with numbers per head. Calls visit(name, view, first) for
// each tensor and returns the number after the last.
template <class Visit>
int64_t for_each_head_tensor(const Declaration& declaration, const void* object, int64_t first,
                             const Visit& visit) {
  for (const rapt::Parameter& parameter : declaration.parameters) {
    if (parameter.type == ParameterType::real) first += !std::isnan(parameter.get(object).real);
    if (parameter.own_rank < 0) continue;
    const TensorView view = parameter.get(object).tensor;
    if (!view.defined()) continue;
    visit(parameter.name, view, first);
    first += view.count();
  }
  return first;
}

struct RelativeGradient {
  const char* name;
  TensorView RelativePositions::*tensor;
  TensorView GradientOutputs::*gradient;
};
inline constexpr RelativeGradient kRelativeGradients[] = {
    {"key_rows", &RelativePositions::key_rows, &GradientOutputs::d_key_rows},
    {"query_rows", &RelativePositions::query_rows, &GradientOutputs::d_query_rows},
    {"value_rows", &RelativePositions::value_rows, &GradientOutputs::d_value_rows},
    {"content_bias", &RelativePositions::content_bias, &GradientOutputs::d_content_bias},
    {"position_bias", &RelativePositions::position_bias, &GradientOutputs::d_position_bias}};

// Calls visit(OptionTensor) for each tensor of the options that may be learned.
template <class Visit>
ParameterCounts for_each_option_tensor(const AttentionOptions& options, const Visit& visit) {
  ParameterCounts counts;
  const auto flat = [&](OptionKind kind) {
    return [&visit, kind](const char* name, const TensorView& view, int64_t first) {
      visit(OptionTensor{kind, name, view, first, nullptr});
    };
  };
  for (const ScoreRef& score : options.scores)
    counts.scores = for_each_head_tensor(*score.declaration, score.object, counts.scores,
                                         flat(OptionKind::score));
  counts.normalizer = for_each_head_tensor(
      *options.normalizer.declaration, options.normalizer.object, 0, flat(OptionKind::normalizer));
  for (const RelativeGradient& r : kRelativeGradients)
    if (const TensorView& view = options.relative.*r.tensor; view.defined())
      visit(OptionTensor{OptionKind::relative, r.name, view, 0, r.gradient});
  if (options.bias.defined())
    visit(OptionTensor{OptionKind::bias, "bias", options.bias, 0, &GradientOutputs::d_bias});
  return counts;
}

// Is the tensor the whole value of the parameter?
inline bool refers_to(const TensorView& view, const Parameter& parameter) noexcept {
  return parameter.defined() && view.data == parameter.value.data() && view.data != nullptr;
}

// Checks that every learned tensor is one of the options, dense and whole: otherwise its gradient
// would be lost without a word. Throws Error(argument).
void check_learned_tensors(const std::vector<LearnedTensor>& learned,
                           const AttentionOptions& options);

// Requests the gradients of learned tensors that learn, and takes memory for them. `bias`: the
// caller's memory for the gradient of the bias, or absent. Throws Error(argument).
void request_learned_gradients(const std::vector<LearnedTensor>& learned,
                               const AttentionOptions& options, const TensorView& bias,
                               DType computed, Arena& arena, BackwardRequest& request,
                               GradientOutputs& outputs);

// Adds these gradients to those of the parameters.
void add_learned_gradients(std::vector<LearnedTensor>& learned, const AttentionOptions& options,
                           const GradientOutputs& gradients, const Context& context);

}  // namespace rapt::nn

// The public functions of forward mode and second derivatives: attention_jvp() and
// attention_backward_jvp().
#include <algorithm>
#include <cmath>
#include <string>

#include "attention/call/learned_parameters.h"
#include "attention/call/output_memory.h"
#include "attention/tangents/tangent_layout.h"
#include "base/call_memory.h"
#include "base/check_argument.h"
#include "base/tensor_memory.h"

namespace rapt {
namespace {

// Work relative to the two products of the forward pass: forward mode has five products, and the
// three walks of second derivatives have at most 6, 10 and 9.
constexpr double kForwardMode = 2.5, kSecondDerivatives = 12.5;

// Expands the tangents of the score functions' parameters to all heads, head by head; an empty span
// means 0.
void expand_parameter_tangents(const Problem& p, std::span<const ScoreRef> scores,
                               std::span<const double> tangents, const WantedGradients& wanted,
                               TangentInputs& in) {
  in.head_parameter_count = wanted.head_parameter_count;
  in.score_parameters.resize(static_cast<size_t>(p.heads * wanted.head_parameter_count));
  if (tangents.empty()) return;
  double* to = in.score_parameters.data();
  for (int64_t head = 0; head < p.heads; ++head) {
    int64_t index[kMaxRank], first = 0;
    p.index_of(head, index);
    for (size_t s = 0; s < scores.size(); ++s) {
      for (int64_t nth = 0; nth < wanted.parameter_counts[s]; ++nth)
        *to++ = tangents[static_cast<size_t>(first + place_of_parameter(scores[s], p, index, nth))];
      first += count_parameters_of(scores[s]);
    }
  }
}

TangentInputs check_tangents(const CheckedCall& call, const InputTangents& tangents,
                             const WantedGradients& wanted) {
  const Problem& p = call.problem;
  const AttentionOptions& options = call.options;
  TangentInputs in;
  const auto read_tangent = [&](const char* name, const TensorView& view, const TensorView& primal,
                                Operand& operand) {
    if (!view.defined()) return;
    check_read(name, view, primal.dims(), p.dtype);
    if (!view.empty()) take_operand(view, p, operand);
  };
  read_tangent("tangents.query", tangents.query, call.query, in.query);
  read_tangent("tangents.key", tangents.key, call.key, in.key);
  read_tangent("tangents.value", tangents.value, call.value, in.value);
  if (tangents.bias.defined()) {
    if (!p.has_bias)
      fail(ErrorCode::argument, "tangents.bias", "tangents.bias, but the options have no bias");
    check_read("tangents.bias", tangents.bias, options.bias.dims(), options.bias.dtype);
    if (!tangents.bias.empty()) take_bias_operand(tangents.bias, p, in.bias);
  }
  if (!std::isfinite(tangents.scale))
    fail(ErrorCode::argument, "tangents.scale",
         "tangents.scale is not finite; expected any finite number");
  in.scale = tangents.scale;
  if (!tangents.score_parameters.empty() &&
      static_cast<int64_t>(tangents.score_parameters.size()) != wanted.score_parameter_count)
    fail(ErrorCode::argument, "tangents.score_parameters",
         "tangents.score_parameters has " + std::to_string(tangents.score_parameters.size()) +
             " numbers; the real parameters of the scores are " +
             std::to_string(wanted.score_parameter_count));
  expand_parameter_tangents(p, options.scores, tangents.score_parameters, wanted, in);
  return in;
}

// Everything that both functions share: the plan of a call, and its scratch.
template <class E>
struct PreparedTangents : PreparedCall<E> {
  BackwardPlan plan;
  Cuts query_cuts, key_cuts;
  TangentLayout<E> layout;

  PreparedTangents(const CheckedCall& call, const WantedGradients& wanted, bool second)
      : PreparedCall<E>(call, {PassKind::tangents, second ? kSecondDerivatives : kForwardMode}),
        plan(backward_plan(call, wanted, *this)),
        query_cuts(call.problem, false, plan.tiling.unit_queries),
        key_cuts(call.problem, true, key_part(plan)),
        layout(tangent_layout(call, wanted, limit_workers(call.problem), this->kernels, second)) {}

  // Allocates the workspace and calls visit(call).
  template <class Visit>
  void with_call(const CheckedCall& checked, const WantedGradients& wanted,
                 const TangentInputs& inputs, const StateTargets& state,
                 const GradientTargets& targets, const Visit& visit) const {
    Tensor memory(DType::u8, {static_cast<int64_t>(layout.bytes)});
    const Workspace workspace(std::as_writable_bytes(memory.values<uint8_t>()), layout.bytes);
    const Captures no_captures = {};
    const Outputs no_outputs = {};
    const ForwardCall<E> forward(checked, this->kernels, no_captures, no_outputs, plan.tiling,
                                 layout.score_tiles, workspace.begin());
    TangentCall<E> call{.forward = forward,
                        .wanted = wanted,
                        .plan = plan,
                        .layout = layout,
                        .inputs = inputs,
                        .state = state,
                        .targets = targets,
                        .query_cuts = query_cuts,
                        .key_cuts = key_cuts};
    visit(call);
  }

 private:
  // Limits the plan's workers to the number of tasks, which are smaller than those of the backward
  // pass.
  const BackwardPlan& limit_workers(const Problem& p) {
    plan.workers = this->workers.of_tasks(
        std::max(p.heads * query_cuts.count(), plan.components * key_cuts.count()));
    return plan;
  }
};

template <class E>
StateTangents jvp(const CheckedCall& checked, const AttentionState& state,
                  const InputTangents& tangents) {
  const Problem& p = checked.problem;
  WantedGradients wanted;
  count_parameters(checked.options.scores, wanted);
  TangentInputs in = check_tangents(checked, tangents, wanted);
  check_state(p, state, in.primal);
  const PreparedTangents<E> prepared(checked, wanted, false);
  const RowShape rows(p, {p.q_len, p.value_dim}), numbers(p, {p.q_len});
  check_memory_limit(
      add_or_max(prepared.layout.bytes,
                 add_or_max(bytes_of(rows, p.output_dtype), bytes_of(numbers, p.result_dtype))),
      checked.context, "");
  StateTangents result{Tensor(p.output_dtype, rows), Tensor(p.result_dtype, numbers)};
  set_to_zero(result.output), set_to_zero(result.statistic);
  StateTargets targets;
  take_output_operand(result.output, true, targets.output);
  if (result.output.count() == 0) targets.output.data = nullptr;
  take_output_operand(result.statistic, false, targets.statistic);
  prepared.with_call(checked, wanted, in, targets, {},
                     [&](const TangentCall<E>& call) { run_jvp(call, checked.context); });
  return result;
}

template <class E>
Gradients backward_jvp(const CheckedCall& checked, const BackwardInputs& inputs,
                       const InputTangents& tangents, const OutputTangents& output_tangents,
                       const BackwardRequest& request) {
  const Problem& p = checked.problem;
  const WantedGradients wanted = wanted_gradients(checked, request);
  if (wanted.normalizer_parameters)
    fail(ErrorCode::unsupported, "normalizer_parameters",
         "tangents of the gradients of the normaliser's parameters: they stand still here");
  if (wanted.heads.count > 0)
    fail(ErrorCode::unsupported, "heads", "tangents of a part of the heads; expected all heads");
  TangentInputs in = check_tangents(checked, tangents, wanted);
  in.primal = check_gradient_inputs(checked, inputs, {});
  if (const TensorView& view = output_tangents.d_output; view.defined())
    take_rows("output_tangents.d_output", view, {p, {p.q_len, p.value_dim}}, p.output_dtype, true,
              in.d_output);
  if (const TensorView& view = output_tangents.d_statistic; view.defined()) {
    require_statistic("output_tangents.d_statistic", checked.options.normalizer);
    take_rows("output_tangents.d_statistic", view, {p, {p.q_len}}, p.result_dtype, false,
              in.d_statistic);
  }
  const PreparedTangents<E> prepared(checked, wanted, true);
  GradientSpec specs[kGradients];
  describe_gradients(checked, wanted, specs);
  const int64_t numbers[] = {3, p.heads, p.q_len};
  const size_t scratch = add_or_max(prepared.layout.bytes, bytes_of(numbers, p.result_dtype));
  check_memory_limit(add_or_max(scratch, bytes_of_results(specs)), checked.context, "");
  Gradients result;
  GradientOutputs outputs;
  allocate_results(specs, result, outputs);
  for (const GradientSpec& spec : specs)
    if (spec.wanted) set_to_zero(result.*spec.tensor);
  const GradientTargets targets = check_gradient_outputs(checked, specs, {}, inputs, outputs, {});
  prepared.with_call(checked, wanted, in, {}, targets,
                     [&](TangentCall<E>& call) { run_backward_jvp(call, checked.context); });
  return result;
}

void require_no_method(const AttentionOptions& options) {
  if (options.method)
    fail(ErrorCode::unsupported, "method",
         std::string("tangents with method ") + options.method->declaration().name +
             "; expected exact attention");
}

}  // namespace

StateTangents attention_jvp(const TensorView& query, const TensorView& key, const TensorView& value,
                            const AttentionOptions& options, const AttentionState& state,
                            const InputTangents& tangents, const Context& context) {
  require_no_method(options);
  const CheckedCall call(query, key, value, options, context, Elements::read);
  return with_element_type(call, [&]<class E>(E) { return jvp<E>(call, state, tangents); });
}

Gradients attention_backward_jvp(const TensorView& query, const TensorView& key,
                                 const TensorView& value, const AttentionOptions& options,
                                 const BackwardInputs& inputs, const InputTangents& tangents,
                                 const OutputTangents& output_tangents,
                                 const BackwardRequest& request, const Context& context) {
  if (inputs.d_weights.defined())
    fail(ErrorCode::unsupported, "d_weights",
         "second derivatives of returned weights; expected no d_weights");
  require_no_method(options);
  const CheckedCall call(query, key, value, options, context, Elements::read);
  return with_element_type(call, [&]<class E>(E) {
    return backward_jvp<E>(call, inputs, tangents, output_tangents, request);
  });
}

}  // namespace rapt

// The public functions of the backward pass: scaled_dot_product_attention_backward() and
// backward_workspace_bytes().
#include <algorithm>
#include <string>

#include "attention/backward/backward_layout.h"
#include "base/call_memory.h"
#include "base/tensor_memory.h"
#include "method/method_call.h"

namespace rapt {
namespace {

// Work relative to the two products of the forward pass: five products in one pass, seven in two.
constexpr double kProducts = 2.5, kProductsOfTwoPasses = 3.5;
double products_of(const Problem& p, const WantedGradients& wanted) {
  const double products = wanted.two_passes ? kProductsOfTwoPasses : kProducts;
  if (wanted.heads.count == 0) return products;
  return products * static_cast<double>(wanted.heads.count) /
         static_cast<double>(p.leading[p.leading_rank - 1]);
}

// Rejects gradients summed over heads whose rows are rotated by different angles: such a sum cannot
// be rotated back.
void check_shared_rows(const Problem& p, const BackwardPlan& plan) {
  const auto check = [&](const char* name, GradientOf o, const RowPositions& positions) {
    for (int i = 0; i < p.leading_rank; ++i)
      if (plan.sharing[o].divisor[i] > 1 && positions.vary(i))
        throw Error(ErrorCode::unsupported,
                    std::string(name) + " of rows that are shared along leading dimension " +
                        std::to_string(i) +
                        ", where their positions differ; expected the same positions, or a copy "
                        "of the rows for each",
                    name);
  };
  if (p.rows.query_turns()) check("d_query", kOfQuery, p.rows.query);
  if (p.rows.key_turns()) check("d_key", kOfKey, p.rows.key);
}

// Rejects a part of the heads that shares a requested gradient with others.
void check_heads(const Problem& p, const BackwardPlan& plan) {
  if (plan.heads.count == 0) return;
  const int64_t together = plan.block[p.leading_rank - 1];
  if (plan.heads.first % together != 0 || plan.heads.count % together != 0)
    throw Error(ErrorCode::unsupported,
                std::to_string(plan.heads.count) + " heads from head " +
                    std::to_string(plan.heads.first) +
                    " on share a requested gradient with others; expected multiples of " +
                    std::to_string(together),
                "heads");
}

// Everything about a call that is known before its memory.
template <class E>
struct PreparedBackward : PreparedCall<E> {
  WantedGradients wanted;
  BackwardPlan plan;
  BackwardLayout<E> layout;

  PreparedBackward(const CheckedCall& call, const WantedGradients& wanted_of_call)
      : PreparedCall<E>(call, {PassKind::backward, products_of(call.problem, wanted_of_call),
                               wanted_of_call.normalizer_parameters}),
        wanted(wanted_of_call),
        plan(backward_plan(call, wanted, *this)),
        layout(backward_layout(call, wanted, plan, this->kernels)) {
    check_shared_rows(call.problem, plan);
    check_heads(call.problem, plan);
  }
  size_t workspace_bytes() const { return layout.bytes; }
};

// The same for a call with a method.
struct MethodBackward {
  MethodCall call;
  WantedGradients wanted;
  MethodPlan plan;

  MethodBackward(const CheckedCall& checked, const WantedGradients& wanted_of_call)
      : call(checked), wanted(wanted_of_call), plan(planned(call, wanted)) {}
  size_t workspace_bytes() const { return workspace_bytes_of(plan); }

 private:
  static MethodPlan planned(const MethodCall& call, const WantedGradients& wanted) {
    check_gradients(call, wanted);
    return call.method().plan_backward(call, wanted);
  }
};

// Calls visit(prepared call) with the element type in which the problem is computed, or with the
// call of its method.
template <class Visit>
auto with_prepared(const CheckedCall& call, const BackwardRequest& request, const Visit& visit) {
  if (call.options.method) return visit(MethodBackward(call, wanted_gradients(call, request)));
  return with_element_type(call, [&]<class E>(E) {
    return visit(PreparedBackward<E>(call, wanted_gradients(call, request)));
  });
}

template <class E>
void run(const CheckedCall& checked, const PreparedBackward<E>& prepared, const GradientInputs& in,
         const GradientTargets& targets, const GradientOutputs&, std::byte* scratch) {
  const Captures no_captures = {};
  const Outputs no_outputs = {};
  const ForwardCall<E> forward(checked, prepared.kernels, no_captures, no_outputs,
                               prepared.plan.tiling, prepared.layout.score_tiles, scratch);
  const BackwardCall<E> call{.forward = forward,
                             .options = checked.options,
                             .wanted = prepared.wanted,
                             .plan = prepared.plan,
                             .layout = prepared.layout,
                             .inputs = in,
                             .targets = targets};
  run_backward(call, checked.context);
}

void run(const CheckedCall&, const MethodBackward& prepared, const GradientInputs& in,
         const GradientTargets& targets, const GradientOutputs& outputs, std::byte* scratch) {
  prepared.call.method().backward(prepared.call, {prepared.wanted, in, targets, outputs}, scratch);
}

// Checks the forward state and the gradients of its results.
template <class E>
GradientInputs check_inputs(const CheckedCall& call, const PreparedBackward<E>& prepared,
                            const BackwardInputs& inputs) {
  return check_gradient_inputs(call, inputs, prepared.wanted.heads);
}
GradientInputs check_inputs(const CheckedCall& call, const MethodBackward& prepared,
                            const BackwardInputs& inputs) {
  check_gradients_of_results(prepared.call, inputs);
  return check_gradient_inputs(call, inputs, {});
}

template <class Prepared>
void backward(const CheckedCall& checked, const Prepared& prepared,
              const GradientSpec (&specs)[kGradients], const BackwardInputs& inputs,
              const GradientOutputs& outputs, std::span<std::byte> workspace) {
  const GradientInputs in = check_inputs(checked, prepared, inputs);
  const GradientTargets targets =
      check_gradient_outputs(checked, specs, prepared.wanted.heads, inputs, outputs, workspace);
  const Workspace scratch(workspace, prepared.workspace_bytes());
  if (checked.problem.heads == 0) {  // no head reads what is broadcast along an empty dimension
    for (const GradientSpec& spec : specs)
      if (spec.wanted) set_to_zero(outputs.*spec.view);
    return;
  }
  run(checked, prepared, in, targets, outputs, scratch.begin());
}

}  // namespace

size_t backward_workspace_bytes(const TensorView& query, const TensorView& key,
                                const TensorView& value, const AttentionOptions& options,
                                const BackwardRequest& request, const Context& context) {
  const CheckedCall call(query, key, value, options, context, Elements::not_read);
  return with_prepared(call, request,
                       [](const auto& prepared) { return prepared.workspace_bytes(); });
}

void scaled_dot_product_attention_backward(const TensorView& query, const TensorView& key,
                                           const TensorView& value, const AttentionOptions& options,
                                           const BackwardInputs& inputs,
                                           const BackwardRequest& request,
                                           const GradientOutputs& outputs,
                                           std::span<std::byte> workspace, const Context& context) {
  const CheckedCall call(query, key, value, options, context, Elements::read);
  with_prepared(call, request, [&](const auto& prepared) {
    GradientSpec specs[kGradients];
    describe_gradients(call, prepared.wanted, specs);
    backward(call, prepared, specs, inputs, outputs, workspace);
  });
}

Gradients scaled_dot_product_attention_backward(const TensorView& query, const TensorView& key,
                                                const TensorView& value,
                                                const AttentionOptions& options,
                                                const BackwardInputs& inputs,
                                                const BackwardRequest& request,
                                                const Context& context) {
  const CheckedCall call(query, key, value, options, context, Elements::read);
  return with_prepared(call, request, [&](const auto& prepared) {
    check_inputs(call, prepared, inputs);  // before memory is allocated
    GradientSpec specs[kGradients];
    describe_gradients(call, prepared.wanted, specs);
    check_memory_limit(
        add_or_max(prepared.workspace_bytes(), bytes_of_results(specs)), context,
        prepared.wanted.two_passes || options.method ? "" : "; two passes take less workspace");
    Gradients result;
    GradientOutputs outputs;
    allocate_results(specs, result, outputs);
    Tensor workspace(DType::u8, {static_cast<int64_t>(prepared.workspace_bytes())});
    backward(call, prepared, specs, inputs, outputs,
             std::as_writable_bytes(workspace.values<uint8_t>()));
    return result;
  });
}

}  // namespace rapt

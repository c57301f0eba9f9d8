#include "cli/compare/compared_call.h"

#include <algorithm>
#include <set>

namespace rapt::cli {
namespace {

DType statistic_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace

size_t workspace_of(const ComparedCall& call, const Context& context) {
  const size_t forward = workspace_bytes(call.query, call.key, call.value, call.options, context);
  if (!call.d_output.defined()) return forward;
  return std::max(forward, backward_workspace_bytes(call.query, call.key, call.value, call.options,
                                                    call.request, context));
}

int64_t CallMemory::bytes_of(const std::vector<const ComparedCall*>& calls) const {
  std::set<DType> dtypes;
  size_t workspace = 0;
  int64_t bytes = 0;
  for (const ComparedCall* call : calls) {
    workspace = std::max(workspace, workspace_of(*call, context_));
    const DType dtype = call->query.dtype;
    if (!dtypes.insert(dtype).second) continue;
    const Shape shape = output_shape_;
    bytes += element_count(shape) * size_of(dtype) +
             element_count(shape.first(shape.size() - 1)) * size_of(statistic_dtype(dtype));
    if (call->d_output.defined())
      bytes += (call->query.count() + call->key.count() + call->value.count()) * size_of(dtype);
  }
  return bytes + static_cast<int64_t>(workspace);
}

void CallMemory::prepare(const ComparedCall& call) {
  workspace_.resize(std::max(workspace_.size(), workspace_of(call, context_)));
  CallResults& results = results_[call.query.dtype];
  const DType dtype = call.query.dtype;
  if (!results.output.defined()) {
    const Shape shape = output_shape_;
    results.output = Tensor(dtype, shape);
    results.statistic = Tensor(statistic_dtype(dtype), shape.first(shape.size() - 1));
  }
  if (!call.d_output.defined()) return;
  const auto take = [&](bool wanted, Tensor& gradient, const TensorView& of) {
    if (wanted && !gradient.defined()) gradient = Tensor(dtype, of.dims());
  };
  take(call.request.query, results.d_query, call.query);
  take(call.request.key, results.d_key, call.key);
  take(call.request.value, results.d_value, call.value);
}

void CallMemory::forward(const ComparedCall& call) {
  CallResults& to = results(call);
  AttentionOutputs outputs;
  outputs.state = {to.output.view(), to.statistic.view()};
  scaled_dot_product_attention(call.query, call.key, call.value, call.options, outputs, workspace_,
                               context_);
}

void CallMemory::backward(const ComparedCall& call) {
  CallResults& to = results(call);
  BackwardInputs inputs;
  inputs.state = {to.output.view(), to.statistic.view()};
  inputs.d_output = call.d_output;
  GradientOutputs gradients;
  if (call.request.query) gradients.d_query = to.d_query.view();
  if (call.request.key) gradients.d_key = to.d_key.view();
  if (call.request.value) gradients.d_value = to.d_value.view();
  scaled_dot_product_attention_backward(call.query, call.key, call.value, call.options, inputs,
                                        call.request, gradients, workspace_, context_);
}

}  // namespace rapt::cli

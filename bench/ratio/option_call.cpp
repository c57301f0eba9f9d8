#include "ratio/option_call.h"

#include "check/tensors/arrays.h"
#include "check/tensors/random.h"
#include "rapt/backward.h"

namespace bench {
namespace {

rapt::Tensor bytes(size_t count) { return {rapt::DType::u8, {static_cast<int64_t>(count)}}; }

}  // namespace

OptionCall::OptionCall(const rapt::AttentionOptions& options, int64_t heads, int64_t n,
                       bool with_backward)
    : options_(options), with_backward_(with_backward) {
  check::Random random(1);
  const auto draw = [&] {
    return check::random_normal(random, rapt::DType::f32, {heads, n, kHeadDim});
  };
  query_ = draw(), key_ = draw(), value_ = draw(), d_output_ = draw();
  for (rapt::Tensor* out : {&output_, &d_query_, &d_key_, &d_value_})
    *out = rapt::Tensor(rapt::DType::f32, {heads, n, kHeadDim});
  statistic_ = rapt::Tensor(rapt::DType::f32, {heads, n});
  context_.threads = 1;
  workspace_ = bytes(rapt::workspace_bytes(query_, key_, value_, options_, context_));
  if (with_backward)
    backward_workspace_ =
        bytes(rapt::backward_workspace_bytes(query_, key_, value_, options_, {}, context_));
}

void OptionCall::call() {
  rapt::AttentionOutputs outputs;
  outputs.state = {output_, statistic_};
  rapt::scaled_dot_product_attention(query_, key_, value_, options_, outputs,
                                     std::as_writable_bytes(workspace_.values<uint8_t>()),
                                     context_);
  if (!with_backward_) return;
  rapt::BackwardInputs inputs;
  inputs.state = outputs.state;
  inputs.d_output = d_output_;
  rapt::GradientOutputs gradients;
  gradients.d_query = d_query_, gradients.d_key = d_key_, gradients.d_value = d_value_;
  rapt::scaled_dot_product_attention_backward(
      query_, key_, value_, options_, inputs, {}, gradients,
      std::as_writable_bytes(backward_workspace_.values<uint8_t>()), context_);
}

}  // namespace bench

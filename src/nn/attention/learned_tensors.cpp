#include "nn/attention/learned_tensors.h"

#include <string>

#include "nn/attention/store_sums.h"

namespace rapt::nn {
namespace {

// Calls visit(learned tensor, option tensor) for each pair that refers to the same memory.
template <class Learned, class Visit>
ParameterCounts for_each_use(Learned& learned, const AttentionOptions& options,
                             const Visit& visit) {
  return for_each_option_tensor(options, [&](const OptionTensor& tensor) {
    for (auto& one : learned)
      if (refers_to(tensor.view, one.parameter)) visit(one, tensor);
  });
}

bool same_shape(const TensorView& view, const Tensor& tensor) {
  const Shape a = view.dims(), b = tensor.dims();
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

// gradient [...] += the numbers from `first` on, which are f64.
void add_numbers(const TensorView& numbers, int64_t first, Tensor& gradient) {
  const double* const from = static_cast<const double*>(numbers.data) + first;
  const int64_t count = gradient.count();
  if (gradient.dtype() == DType::f64) {
    auto* const to = static_cast<double*>(gradient.data());
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  } else {
    auto* const to = static_cast<float*>(gradient.data());
    for (int64_t i = 0; i < count; ++i) to[i] += static_cast<float>(from[i]);
  }
}

}  // namespace

void check_learned_tensors(const std::vector<LearnedTensor>& learned,
                           const AttentionOptions& options) {
  for (const LearnedTensor& one : learned) {
    bool used = false;
    for_each_option_tensor(options, [&](const OptionTensor& tensor) {
      if (!refers_to(tensor.view, one.parameter)) return;
      used = true;
      if (!tensor.view.contiguous() || !same_shape(tensor.view, one.parameter.value))
        throw Error(ErrorCode::argument,
                    std::string(tensor.name) + " " + to_string(tensor.view.dims()) +
                        " is a part of the learned tensor " + one.name + " " +
                        to_string(one.parameter.value.dims()) + "; expected a view of the whole");
    });
    if (!used)
      throw Error(ErrorCode::argument,
                  "no option refers to the learned tensor " + one.name +
                      "; its value may have been replaced: write into it instead, or remove it");
  }
}

void request_learned_gradients(const std::vector<LearnedTensor>& learned,
                               const AttentionOptions& options, const TensorView& bias,
                               DType computed, Arena& arena, BackwardRequest& request,
                               GradientOutputs& outputs) {
  const ParameterCounts counts =
      for_each_use(learned, options, [&](const LearnedTensor& one, const OptionTensor& tensor) {
        if (!one.parameter.learns()) return;
        request.score_parameters |= tensor.kind == OptionKind::score;
        request.normalizer_parameters |= tensor.kind == OptionKind::normalizer;
        request.relative |= tensor.kind == OptionKind::relative;
        request.bias |= tensor.kind == OptionKind::bias;
      });
  if (bias.defined() && !options.bias.defined())
    throw Error(ErrorCode::argument,
                "memory for the gradient of a bias, but the options have no bias; leave it out");
  if (request.bias && bias.defined())
    throw Error(ErrorCode::argument,
                "memory for the gradient of a bias that is a learned tensor, to whose gradient it "
                "is added; leave the memory out");
  if (request.score_parameters)
    outputs.d_score_parameters = arena.take(DType::f64, {counts.scores});
  if (request.normalizer_parameters)
    outputs.d_normalizer_parameters = arena.take(DType::f64, {counts.normalizer});
  if (request.relative)
    for (const RelativeGradient& r : kRelativeGradients)
      if (const TensorView& view = options.relative.*r.tensor; view.defined())
        outputs.*r.gradient = arena.take(computed, view.dims());
  if (request.bias) outputs.d_bias = arena.take(computed, options.bias.dims());
  if (bias.defined()) request.bias = true, outputs.d_bias = bias;
}

void add_learned_gradients(std::vector<LearnedTensor>& learned, const AttentionOptions& options,
                           const GradientOutputs& gradients, const Context& context) {
  for_each_use(learned, options, [&](LearnedTensor& one, const OptionTensor& tensor) {
    if (!one.parameter.learns()) return;
    Tensor& gradient = one.parameter.gradient;
    if (tensor.kind == OptionKind::score)
      add_numbers(gradients.d_score_parameters, tensor.first, gradient);
    else if (tensor.kind == OptionKind::normalizer)
      add_numbers(gradients.d_normalizer_parameters, tensor.first, gradient);
    else
      store_sums(gradients.*tensor.gradient, gradient.view(), true, context);
  });
}

}  // namespace rapt::nn

#include "timing/backward_problem.h"

namespace timing {
namespace {

rapt::BackwardRequest request_of(const check::Case& problem, const rapt::AttentionOptions& options,
                                 rapt::BackwardPasses passes) {
  rapt::BackwardRequest request;
  request.normalizer_parameters = check::has_gradient(problem.descriptor.normalizer);
  request.score_parameters = check::count_parameters_of(problem.descriptor.scores) > 0;
  request.bias = options.bias.defined();
  request.relative = options.relative.any();
  request.passes = passes;
  return request;
}

}  // namespace

BackwardProblem::BackwardProblem(const check::Descriptor& descriptor, rapt::BackwardPasses passes,
                                 const rapt::Context& context, const rapt::Rotary* rotary,
                                 const Observer& observer)
    : context_(context),
      case_(descriptor),
      inputs_(case_.laid_out()),
      options_(options_of(case_, rotary)),
      request_(request_of(case_, options_, passes)),
      plan_(rapt::plan(inputs_.query, inputs_.key, inputs_.value, options_, context_)),
      forward_(rapt::scaled_dot_product_attention(inputs_.query, inputs_.key, inputs_.value,
                                                  options_, context_)),
      // Any numbers of the size of gradients will do, so the output serves as its own gradient.
      d_output_(rapt::Tensor::copy_of(forward_.output)),
      backward_inputs_{forward_.state(), d_output_, {}, {}},
      // The simple call creates all tensors that the other call writes to, and warms them up.
      gradients_(observed(observer,
                          [&] {
                            return rapt::scaled_dot_product_attention_backward(
                                inputs_.query, inputs_.key, inputs_.value, options_,
                                backward_inputs_, request_, context_);
                          })),
      outputs_{gradients_.d_query,
               gradients_.d_key,
               gradients_.d_value,
               gradients_.d_bias,
               {},
               gradients_.d_score_parameters,
               gradients_.d_normalizer_parameters,
               gradients_.d_key_rows,
               gradients_.d_query_rows,
               gradients_.d_value_rows,
               gradients_.d_content_bias,
               gradients_.d_position_bias},
      workspace_(rapt::backward_workspace_bytes(inputs_.query, inputs_.key, inputs_.value, options_,
                                                request_, context_)) {}

void BackwardProblem::call(const rapt::Context& context) {
  rapt::scaled_dot_product_attention_backward(inputs_.query, inputs_.key, inputs_.value, options_,
                                              backward_inputs_, request_, outputs_, workspace_,
                                              context);
}

void BackwardProblem::call(const rapt::Progress& progress) {
  rapt::Context context = context_;
  context.progress = progress;
  call(context);
}

void BackwardProblem::call_on(rapt::Executor& executor) {
  rapt::Context context;
  context.executor = &executor;
  call(context);
}

double BackwardProblem::useful_flops() const {
  return static_cast<double>(6 * descriptor().head_dim + 4 * descriptor().value_dim) *
         static_cast<double>(plan_.allowed_scores);
}

}  // namespace timing

#include "timing/problem.h"

namespace timing {

rapt::Context one_thread() {
  rapt::Context context;
  context.threads = 1;
  return context;
}

rapt::AttentionOptions options_of(const check::Case& problem, const rapt::Rotary* rotary) {
  rapt::AttentionOptions options = problem.wanted_options();
  options.rotary.embedding = rotary;
  return options;
}

Problem::Problem(const check::Descriptor& descriptor, const rapt::Context& context,
                 const rapt::Rotary* rotary, const Observer& observer)
    : context_(context),
      case_(descriptor),
      inputs_(case_.laid_out()),
      options_(options_of(case_, rotary)),
      plan_(rapt::plan(inputs_.query, inputs_.key, inputs_.value, options_, context_)),
      // The simple call creates all tensors that the other call writes to, and warms them up.
      result_(observed(observer,
                       [&] {
                         return rapt::scaled_dot_product_attention(
                             inputs_.query, inputs_.key, inputs_.value, options_, context_);
                       })),
      outputs_{result_.state(),     result_.weights, result_.map,     result_.top_keys,
               result_.top_weights, result_.entropy, result_.received},
      workspace_(plan_.workspace_bytes) {}

void Problem::call(const rapt::Progress& progress) {
  rapt::Context context = context_;
  context.progress = progress;
  rapt::scaled_dot_product_attention(inputs_.query, inputs_.key, inputs_.value, options_, outputs_,
                                     workspace_, context);
}

double Problem::useful_flops() const {
  return 2.0 * static_cast<double>(descriptor().head_dim + descriptor().value_dim) *
         static_cast<double>(plan_.allowed_scores);
}

}  // namespace timing

#include "problem.h"

namespace bench {
namespace {

// The CPU time of the calling thread must be that of the call.
rapt::Context one_thread() {
  rapt::Context context;
  context.threads = 1;
  return context;
}

}  // namespace

Problem::Problem(const check::Descriptor& descriptor)
    : case_(descriptor),
      inputs_(case_.laid_out()),
      options_(case_.wanted_options()),
      plan_(rapt::plan(inputs_.query, inputs_.key, inputs_.value, options_, one_thread())),
      // The simple call has made all tensors that the other one writes into, and warmed them up.
      result_(rapt::scaled_dot_product_attention(inputs_.query, inputs_.key, inputs_.value,
                                                 options_, one_thread())),
      outputs_{result_.state(),     result_.weights, result_.map,     result_.top_keys,
               result_.top_weights, result_.entropy, result_.received},
      workspace_(plan_.workspace_bytes) {}

void Problem::call(const rapt::Progress& progress) {
  rapt::Context context = one_thread();
  context.progress = progress;
  rapt::scaled_dot_product_attention(inputs_.query, inputs_.key, inputs_.value, options_, outputs_,
                                     workspace_, context);
}

double Problem::useful_flops() const {
  return 2.0 * static_cast<double>(descriptor().head_dim + descriptor().value_dim) *
         static_cast<double>(plan_.allowed_scores);
}

}  // namespace bench

#include "nn/attention/cached_weights.h"

#include "rapt/mask/lengths.h"

namespace rapt::nn {
namespace {

// Row `s` of weights [batch, capacity], as attention returns those of one head and one query.
TensorView weights_row(const TensorView& weights, int64_t s) {
  const int64_t shape[] = {1, 1, weights.shape[1]};
  return {weights.slice(0, s, s + 1).data, weights.dtype, shape, false};
}

}  // namespace

void write_cached_weights(const MultiHeadAttention& layer, const TensorView& query,
                          const CachedRows& cached, const HeadWeights& request, const Run& run) {
  const Arena::Frame frame(run.scratch);
  const CacheViews& views = cached.views;
  const int64_t batch = query.shape[0], rows = query.shape[2];
  const TensorView output = run.scratch.take(query.dtype, {1, layer.num_heads, 1, layer.head_dim});
  const int64_t heads[] = {request.head};
  AttentionOptions options = layer.options;
  options.rotary = {};  // rows are rotated
  options.invariant |= cached.invariant;
  options.weights = WeightsRequest{.heads = heads};
  for (int64_t s = 0; s < batch; ++s) {
    const Lengths keys(views.cache.lengths.slice(0, s, s + 1));
    options.masks = {&keys};
    const TensorView last = query.slice(0, s, s + 1).slice(2, rows - 1, rows);
    const TensorView key = views.key.slice(0, s, s + 1), value = views.value.slice(0, s, s + 1);
    if (run.counts())  // all sequences need the same
      return run.scratch.need(workspace_bytes(last, key, value, options, run.context));
    const AttentionOutputs outputs{.state = {output, {}},
                                   .weights = weights_row(request.weights, s)};
    scaled_dot_product_attention(last, key, value, options, outputs, run.scratch.rest(),
                                 run.context);
  }
}

}  // namespace rapt::nn

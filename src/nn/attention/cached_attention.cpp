#include "nn/attention/cached_attention.h"

#include "nn/attention/cached_weights.h"
#include "nn/attention/multi_head_parts.h"
#include "rapt/cache.h"

namespace rapt::nn {
namespace {

void rotate_in_place(const TensorView& rows, const Rotary& rotary, const TensorView& positions,
                     const Run& run) {
  if (run.counts()) return run.scratch.need(rotary_workspace_bytes(rows, rotary));
  rotary_embedding(rows, rotary, {.values = positions}, rows, run.scratch.rest());
}

void attend_to_cache(const MultiHeadAttention& layer, const HeadViews& heads,
                     const CachedRows& cache, const TensorView& statistic, const Run& run) {
  AttentionOptions options = layer.options;
  options.rotary = {};  // rows are rotated
  options.cache = {.lengths = cache.lengths};
  if (run.counts())
    return run.scratch.need(
        workspace_bytes(heads.query, cache.keys, cache.values, options, run.context));
  write_to_cache(cache.keys, heads.key, cache.lengths_before);
  write_to_cache(cache.values, heads.value, cache.lengths_before);
  const AttentionOutputs outputs{.state = {heads.output, statistic}};
  scaled_dot_product_attention(heads.query, cache.keys, cache.values, options, outputs,
                               run.scratch.rest(), run.context);
}

}  // namespace

void forward_cached(const MultiHeadAttention& layer, const TensorView& x, const TensorView& y,
                    const CachedRows& cache, const Run& run, bool add, const HeadWeights& weights) {
  const Arena::Frame frame(run.scratch);
  const MultiHeadAttention::State state = make_state(layer, x.dims(), run.scratch);
  project_heads(layer, x, state, run);
  const HeadViews heads(layer, state);
  if (const Rotary* const rotary = layer.options.rotary.embedding) {
    rotate_in_place(heads.query, *rotary, cache.positions, run);
    rotate_in_place(heads.key, *rotary, cache.positions, run);
  }
  attend_to_cache(layer, heads, cache, state.statistic, run);
  if (weights.weights.defined()) write_cached_weights(layer, heads.query, cache, weights, run);
  forward(layer.out_proj, state.attention, y, run, {.add = add});
}

}  // namespace rapt::nn

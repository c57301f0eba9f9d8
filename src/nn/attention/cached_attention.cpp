#include "nn/attention/cached_attention.h"

#include "nn/attention/cached_weights.h"
#include "nn/attention/multi_head_parts.h"

namespace rapt::nn {
namespace {

void rotate_in_place(const TensorView& rows, const Rotary& rotary, const TensorView& positions,
                     const Run& run) {
  if (run.counts()) return run.scratch.need(rotary_workspace_bytes(rows, rotary));
  rotary_embedding(rows, rotary, {.values = positions}, rows, run.scratch.rest());
}

void attend_to_cache(const MultiHeadAttention& layer, const HeadViews& heads,
                     const CachedRows& rows, const TensorView& statistic, const Run& run) {
  AttentionOptions options = layer.options;
  options.rotary = {};  // rows are rotated
  options.cache = rows.views.cache;
  options.invariant |= rows.invariant;
  if (run.counts())
    return run.scratch.need(
        workspace_bytes(heads.query, rows.views.key, rows.views.value, options, run.context));
  rows.cache->append(heads.key, heads.value);
  const AttentionOutputs outputs{.state = {heads.output, statistic}};
  scaled_dot_product_attention(heads.query, rows.views.key, rows.views.value, options, outputs,
                               run.scratch.rest(), run.context);
}

}  // namespace

void forward_cached(const MultiHeadAttention& layer, const TensorView& x, const TensorView& y,
                    const CachedRows& rows, const Run& run, bool add, const HeadWeights& weights) {
  const Arena::Frame frame(run.scratch);
  const MultiHeadAttention::State state = make_state(layer, x.dims(), run.scratch);
  project_heads(layer, x, state, run);
  const HeadViews heads(layer, state);
  if (const Rotary* const rotary = layer.options.rotary.embedding) {
    rotate_in_place(heads.query, *rotary, rows.positions, run);
    rotate_in_place(heads.key, *rotary, rows.positions, run);
  }
  attend_to_cache(layer, heads, rows, state.statistic, run);
  if (weights.weights.defined()) write_cached_weights(layer, heads.query, rows, weights, run);
  forward(layer.out_proj, state.attention, y, run, {.add = add});
}

}  // namespace rapt::nn

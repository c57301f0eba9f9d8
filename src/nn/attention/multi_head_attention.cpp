#include "rapt/nn/multi_head_attention.h"

#include <cstring>

#include "nn/attention/head_norms.h"
#include "nn/attention/multi_head_parts.h"

namespace rapt::nn {
namespace {

// Projects the rows of `from` by a part of the weights into `to`.
struct Projection {
  const MultiHeadAttention& layer;
  Products products;

  void rows(const TensorView& from, const ProjectionPart& part, const TensorView& to) const {
    products.forward(from, weight_rows(layer, weight_of(layer, part).value.view(), part),
                     layer.in_proj_bias.defined()
                         ? layer.in_proj_bias.value.view().slice(0, part.begin, part.end)
                         : TensorView(),
                     to);
  }
  // Rows of sequences, behind which an appended key may stand.
  void keys(const TensorView& from, const ProjectionPart& part, const TensorView& to) const {
    const KeyMatrices matrices(to, layer.appended_keys());
    for (int64_t i = 0; i < matrices.count; ++i) {
      rows(matrices.of_input(from, i), part, matrices.of_keys(to, i));
      if (products.run.counts()) return;  // all are of one size
    }
  }
};

// Writes bias_k and bias_v behind the keys of each sequence.
void append_keys(const MultiHeadAttention& layer, const TensorView& key_value) {
  const TensorView rows = KeyMatrices(key_value, 1).appended(key_value);
  const size_t bytes = static_cast<size_t>(layer.kv() * size_of(rows.dtype));
  for (int64_t i = 0; i < rows.shape[0]; ++i) {
    auto* const to = static_cast<std::byte*>(rows.data) + i * rows.strides[0] * size_of(rows.dtype);
    std::memcpy(to, layer.bias_k.value.data(), bytes);
    std::memcpy(to + bytes, layer.bias_v.value.data(), bytes);
  }
}

void project_rows(const MultiHeadAttention& layer, const TensorView& x,
                  const MultiHeadAttention::State& state, const Run& run,
                  const MultiHeadCall& call) {
  const Projection projection{layer, {run}};
  const int64_t kv = layer.kv(), all = layer.inner() + 2 * kv;
  if (!state.key_value.defined())
    return projection.rows(as_matrix(x), {0, all}, as_matrix(state.projections));
  const TensorView& keys = call.key_value.defined() ? call.key_value : x;
  projection.rows(as_matrix(x), query_part(layer), as_matrix(state.projections));
  if (layer.in_proj_weight.defined() && !call.value.defined()) {
    projection.keys(keys, {layer.inner(), all}, state.key_value);
  } else {
    projection.keys(keys, key_part(layer), state.key_value.slice(-1, 0, kv));
    projection.keys(call.value.defined() ? call.value : keys, value_part(layer),
                    state.key_value.slice(-1, kv, 2 * kv));
  }
  if (layer.appended_keys() > 0 && !run.counts()) append_keys(layer, state.key_value);
}

void attend(const MultiHeadAttention& layer, const MultiHeadAttention::State& state, const Run& run,
            const MultiHeadCall& call) {
  const MultiHeadOptions options(layer, call, run, true);
  const HeadViews heads(layer, state);
  if (run.counts())
    return run.scratch.need(
        workspace_bytes(heads.query, heads.key, heads.value, *options, run.context));
  const AttentionOutputs outputs{.state = {heads.output, state.statistic},
                                 .weights = call.weights,
                                 .map = call.map,
                                 .top_keys = call.top_keys,
                                 .top_weights = call.top_weights,
                                 .entropy = call.entropy,
                                 .received = call.received};
  scaled_dot_product_attention(heads.query, heads.key, heads.value, *options, outputs,
                               run.scratch.rest(), run.context);
}

}  // namespace

void project_heads(const MultiHeadAttention& layer, const TensorView& x,
                   const MultiHeadAttention::State& state, const Run& run,
                   const MultiHeadCall& call) {
  project_rows(layer, x, state, run, call);
  if (layer.q_norm) normalize_heads(layer, state, run);
}

MultiHeadAttention::State make_state(const MultiHeadAttention& layer, Shape x, Arena& arena,
                                     Shape key_value) {
  const MultiHeadShapes shapes(layer, x, key_value);
  const DType dtype = layer.dtype();
  MultiHeadAttention::State state;
  state.projections = arena.take(dtype, shapes.projections);
  if (!shapes.joint) state.key_value = arena.take(dtype, shapes.keys);
  state.attention = arena.take(dtype, shapes.attention);
  state.statistic = arena.take(dtype == DType::f64 ? DType::f64 : DType::f32, shapes.statistic);
  if (layer.q_norm) take_head_norms(layer, arena, state);
  return state;
}

void forward(const MultiHeadAttention& layer, const TensorView& x, const TensorView& y,
             const MultiHeadAttention::State& state, const Run& run, const MultiHeadCall& call) {
  if (!run.counts()) check_forward(layer, x, y, state, call);
  project_heads(layer, x, state, run, call);
  attend(layer, state, run, call);
  forward(layer.out_proj, state.attention, y, run, {.add = call.add});
}

}  // namespace rapt::nn

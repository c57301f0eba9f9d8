#include "rapt/nn/encoder_layer.h"

#include "nn/blocks/residual.h"

namespace rapt::nn {

EncoderLayer make_encoder_layer(int64_t features, int64_t num_heads, const EncoderLayerSpec& spec,
                                DType dtype) {
  MultiHeadAttentionSpec attention = spec.attention;
  attention.dropout = spec.dropout;
  attention.dropout_stream = spec.dropout_stream;
  const int64_t hidden = spec.hidden_features == 0 ? 4 * features : spec.hidden_features;
  EncoderLayer layer;
  layer.self_attn = make_multi_head_attention(features, num_heads, attention, dtype);
  layer.network = make_feed_forward(
      features, hidden,
      {.activation = spec.activation, .gated = spec.gated, .bias = spec.network_bias}, dtype);
  const NormSpec norm{.rms = spec.rms_norm, .epsilon = spec.norm_epsilon};
  layer.norm1 = make_norm(features, norm, dtype);
  layer.norm2 = make_norm(features, norm, dtype);
  layer.network.dropout = {spec.dropout, spec.dropout_stream + 1};
  layer.dropout1 = {spec.dropout, spec.dropout_stream + 2};
  layer.dropout2 = {spec.dropout, spec.dropout_stream + 3};
  layer.norm_first = spec.norm_first;
  return layer;
}

EncoderLayer::State make_state(const EncoderLayer& layer, Shape x, Arena& arena) {
  const DType dtype = layer.self_attn.dtype();
  EncoderLayer::State state;
  state.attention = make_state(layer.self_attn, x, arena);
  state.network = make_state(layer.network, x, arena);
  state.norm1 = make_state(layer.norm1, x, dtype, arena);
  state.norm2 = make_state(layer.norm2, x, dtype, arena);
  state.residual = arena.take(dtype, x);
  state.normed2 = arena.take(dtype, x);
  (layer.norm_first ? state.normed1 : state.sum) = arena.take(dtype, x);
  return state;
}

void forward(const EncoderLayer& layer, const TensorView& x, const TensorView& y,
             const EncoderLayer::State& state, const Run& run, const MultiHeadCall& call) {
  const TensorView& attention_x = layer.norm_first ? state.normed1 : x;
  const TensorView& sum = layer.norm_first ? y : state.sum;
  if (layer.norm_first) forward(layer.norm1, x, state.normed1, state.norm1, run);
  copy_dense(x, state.residual, run);
  add_branch(layer.dropout1, state.residual, run, [&](const TensorView& out, bool add) {
    MultiHeadCall with_add = call;
    with_add.add = add;
    forward(layer.self_attn, attention_x, out, state.attention, run, with_add);
  });
  if (layer.norm_first)
    forward(layer.norm2, state.residual, state.normed2, state.norm2, run);
  else
    forward(layer.norm1, state.residual, state.normed2, state.norm1, run);
  copy_dense(layer.norm_first ? state.residual : state.normed2, sum, run);
  add_branch(layer.dropout2, sum, run, [&](const TensorView& out, bool add) {
    forward(layer.network, state.normed2, out, state.network, run, add);
  });
  if (!layer.norm_first) forward(layer.norm2, state.sum, y, state.norm2, run);
}

void backward(EncoderLayer& layer, const TensorView& x, const TensorView& d_y,
              const EncoderLayer::State& state, const TensorView& d_x, const Run& run,
              const MultiHeadCall& call) {
  const Arena::Frame frame(run.scratch);
  const auto like_x = [&] { return run.scratch.take(x.dtype, x.dims()); };
  const TensorView d_normed = like_x();
  const TensorView d_sum = layer.norm_first ? d_y : like_x();
  const TensorView d_residual = like_x();

  if (!layer.norm_first) backward(layer.norm2, state.sum, d_y, state.norm2, d_sum, run);
  branch_gradient(layer.dropout2, d_sum, run, [&](const TensorView& d_branch) {
    backward(layer.network, state.normed2, d_branch, state.network, d_normed, run);
  });
  if (layer.norm_first) {
    copy_dense(d_sum, d_residual, run);
    backward(layer.norm2, state.residual, d_normed, state.norm2, d_residual, run, true);
  } else {
    add_dense(d_sum, d_normed, run);
    backward(layer.norm1, state.residual, d_normed, state.norm1, d_residual, run);
  }

  branch_gradient(layer.dropout1, d_residual, run, [&](const TensorView& d_branch) {
    const bool direct = !layer.norm_first && d_x.defined();
    if (direct) copy_dense(d_residual, d_x, run);
    backward(layer.self_attn, layer.norm_first ? state.normed1 : x, d_branch, state.attention,
             layer.norm_first ? d_normed : d_x, run, direct, call);
  });
  if (!layer.norm_first) return;
  if (d_x.defined()) {
    copy_dense(d_residual, d_x, run);
    backward(layer.norm1, x, d_normed, state.norm1, d_x, run, true);
  } else {
    backward(layer.norm1, x, d_normed, state.norm1, TensorView(), run);
  }
}

}  // namespace rapt::nn

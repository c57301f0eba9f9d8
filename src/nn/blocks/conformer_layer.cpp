#include "rapt/nn/conformer_layer.h"

#include "nn/blocks/residual.h"
#include "nn/blocks/scale_dense.h"
#include "nn/blocks/sequences.h"
#include "nn/dense.h"

namespace rapt::nn {
namespace {

// Checks x and the tensors of the state that the block writes itself; `check` is check_output of a
// forward call and check_input of a backward call.
template <class Check>
void check_conformer(const ConformerLayer& layer, const TensorView& x,
                     const ConformerLayer::State& s, const MultiHeadCall& call,
                     const Check& check) {
  const DType dtype = layer.self_attn.dtype();
  check_sequences("x", x, "features", layer.features());
  check_input("x", x, x.dims(), dtype);
  check("state.ffn1_input", s.ffn1_input, x.dims(), dtype);
  check("state.after_ffn1", s.after_ffn1, x.dims(), dtype);
  check("state.attention_input", s.attention_input, x.dims(), dtype);
  check("state.after_attention", s.after_attention, x.dims(), dtype);
  check("state.after_convolution", s.after_convolution, x.dims(), dtype);
  check("state.ffn2_input", s.ffn2_input, x.dims(), dtype);
  check("state.after_ffn2", s.after_ffn2, x.dims(), dtype);
  if (call.key_value.defined() || call.value.defined() || call.add)
    throw Error(
        ErrorCode::argument,
        "the call of a Conformer block has key_value, value or add; expected self-attention "
        "whose output the block adds itself");
}

// sum += 1/2 dropout(network(input)).
void add_half_step(const FeedForward& network, const Dropout& dropout, const TensorView& input,
                   const FeedForward::State& state, const TensorView& sum, const Run& run) {
  const Arena::Frame frame(run.scratch);
  const TensorView branch = run.scratch.take(sum.dtype, sum.dims());
  forward(network, input, branch, state, run);
  forward(dropout, branch, branch, run);
  scale_dense(branch, 0.5, sum, run, true);
}

// d_input, the gradient of the network's input, from that of the sum.
void half_step_gradient(FeedForward& network, const Dropout& dropout, const TensorView& input,
                        const FeedForward::State& state, const TensorView& d_sum,
                        const TensorView& d_input, const Run& run) {
  const Arena::Frame frame(run.scratch);
  const TensorView d_branch = run.scratch.take(d_sum.dtype, d_sum.dims());
  scale_dense(d_sum, 0.5, d_branch, run);
  backward(dropout, d_branch, d_branch, run);
  backward(network, input, d_branch, state, d_input, run);
}

}  // namespace

ConformerLayer make_conformer_layer(int64_t features, int64_t num_heads,
                                    const ConformerLayerSpec& spec, DType dtype) {
  MultiHeadAttentionSpec attention = spec.attention;
  attention.dropout = spec.dropout;
  attention.dropout_stream = spec.dropout_stream;
  const int64_t hidden = spec.hidden_features == 0 ? 4 * features : spec.hidden_features;
  const auto norm = [&] {
    return make_layer_norm(features, {.epsilon = spec.norm_epsilon}, dtype);
  };
  ConformerLayer layer;
  layer.self_attn = make_multi_head_attention(features, num_heads, attention, dtype);
  layer.conv_module = make_conformer_convolution(
      features, {.kernel = spec.kernel, .padding = spec.padding, .norm_epsilon = spec.norm_epsilon},
      dtype);
  layer.ffn1 = make_feed_forward(features, hidden, {.activation = Activation::silu}, dtype);
  layer.ffn2 = make_feed_forward(features, hidden, {.activation = Activation::silu}, dtype);
  layer.ffn1_layer_norm = norm();
  layer.self_attn_layer_norm = norm();
  layer.ffn2_layer_norm = norm();
  layer.final_layer_norm = norm();
  uint64_t stream = spec.dropout_stream;  // attention's own
  for (Dropout* dropout : {&layer.ffn1.dropout, &layer.dropout1, &layer.dropout2, &layer.dropout3,
                           &layer.ffn2.dropout, &layer.dropout4})
    *dropout = {spec.dropout, ++stream};
  return layer;
}

ConformerLayer::State make_state(const ConformerLayer& layer, Shape x, Arena& arena) {
  const DType dtype = layer.self_attn.dtype();
  check_sequences("x", TensorView(nullptr, dtype, x, false), "features", layer.features());
  ConformerLayer::State s;
  s.ffn1_layer_norm = make_state(layer.ffn1_layer_norm, x, dtype, arena);
  s.ffn1 = make_state(layer.ffn1, x, arena);
  s.self_attn_layer_norm = make_state(layer.self_attn_layer_norm, x, dtype, arena);
  s.attention = make_state(layer.self_attn, x, arena);
  s.conv_module = make_state(layer.conv_module, x, arena);
  s.ffn2_layer_norm = make_state(layer.ffn2_layer_norm, x, dtype, arena);
  s.ffn2 = make_state(layer.ffn2, x, arena);
  s.final_layer_norm = make_state(layer.final_layer_norm, x, dtype, arena);
  for (TensorView* view : {&s.ffn1_input, &s.after_ffn1, &s.attention_input, &s.after_attention,
                           &s.after_convolution, &s.ffn2_input, &s.after_ffn2})
    *view = arena.take(dtype, x);
  return s;
}

void forward(const ConformerLayer& layer, const TensorView& x, const TensorView& y,
             const ConformerLayer::State& s, const Run& run, const MultiHeadCall& call) {
  if (!run.counts()) {
    check_conformer(layer, x, s, call, check_output);
    check_output("y", y, x.dims(), x.dtype);
    check_apart("y", y, "x", x);
  }
  forward(layer.ffn1_layer_norm, x, s.ffn1_input, s.ffn1_layer_norm, run);
  copy_dense(x, s.after_ffn1, run);
  add_half_step(layer.ffn1, layer.dropout1, s.ffn1_input, s.ffn1, s.after_ffn1, run);

  forward(layer.self_attn_layer_norm, s.after_ffn1, s.attention_input, s.self_attn_layer_norm, run);
  copy_dense(s.after_ffn1, s.after_attention, run);
  add_branch(layer.dropout2, s.after_attention, run, [&](const TensorView& out, bool add) {
    MultiHeadCall with_add = call;
    with_add.add = add;
    forward(layer.self_attn, s.attention_input, out, s.attention, run, with_add);
  });

  forward(layer.conv_module, s.after_attention, s.after_convolution, s.conv_module, run);
  forward(layer.dropout3, s.after_convolution, s.after_convolution, run);
  add_dense(s.after_attention, s.after_convolution, run);

  forward(layer.ffn2_layer_norm, s.after_convolution, s.ffn2_input, s.ffn2_layer_norm, run);
  copy_dense(s.after_convolution, s.after_ffn2, run);
  add_half_step(layer.ffn2, layer.dropout4, s.ffn2_input, s.ffn2, s.after_ffn2, run);

  forward(layer.final_layer_norm, s.after_ffn2, y, s.final_layer_norm, run);
}

void backward(ConformerLayer& layer, const TensorView& x, const TensorView& d_y,
              const ConformerLayer::State& s, const TensorView& d_x, const Run& run,
              const MultiHeadCall& call) {
  if (!run.counts()) {
    check_conformer(layer, x, s, call, check_input);
    check_input("d_y", d_y, x.dims(), x.dtype);
    if (d_x.defined()) check_output("d_x", d_x, x.dims(), x.dtype);
    check_apart("d_x", d_x, "x", x);
    check_same_or_apart("d_x", d_x, "d_y", d_y);
  }
  const Arena::Frame frame(run.scratch);
  // The gradient of the sum behind each branch, from the last to the first.
  const TensorView d_sum = run.scratch.take(x.dtype, x.dims());
  const TensorView d_input = run.scratch.take(x.dtype, x.dims());

  backward(layer.final_layer_norm, s.after_ffn2, d_y, s.final_layer_norm, d_sum, run);
  half_step_gradient(layer.ffn2, layer.dropout4, s.ffn2_input, s.ffn2, d_sum, d_input, run);
  backward(layer.ffn2_layer_norm, s.after_convolution, d_input, s.ffn2_layer_norm, d_sum, run,
           true);

  branch_gradient(layer.dropout3, d_sum, run, [&](const TensorView& d_branch) {
    backward(layer.conv_module, s.after_attention, d_branch, s.conv_module, d_sum, run, true);
  });

  branch_gradient(layer.dropout2, d_sum, run, [&](const TensorView& d_branch) {
    backward(layer.self_attn, s.attention_input, d_branch, s.attention, d_input, run, false, call);
  });
  backward(layer.self_attn_layer_norm, s.after_ffn1, d_input, s.self_attn_layer_norm, d_sum, run,
           true);

  half_step_gradient(layer.ffn1, layer.dropout1, s.ffn1_input, s.ffn1, d_sum, d_input, run);
  if (d_x.defined()) copy_dense(d_sum, d_x, run);
  backward(layer.ffn1_layer_norm, x, d_input, s.ffn1_layer_norm, d_x, run, d_x.defined());
}

}  // namespace rapt::nn

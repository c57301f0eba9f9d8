#include "rapt/nn/decoder_layer.h"

#include <type_traits>

#include "nn/blocks/residual.h"

namespace rapt::nn {
namespace {

// One of the three branches: its norm, its dropout, what goes around it, and its places in the
// state.
template <class Norm>
struct DecoderBranch {
  Norm& norm;
  const Dropout& dropout;
  const LayerNorm::State& norm_state;
  TensorView before;  // what comes into the branch and goes around it
  TensorView input;   // of attention or the network; norm_first: norm(before), else `before`
  TensorView sum;     // before + branch
  TensorView after;   // norm_first: the sum; else norm(sum)
};

template <class Layer>  // const in a forward call
struct DecoderBranches {
  using Norm = std::conditional_t<std::is_const_v<Layer>, const LayerNorm, LayerNorm>;
  DecoderBranch<Norm> all[3];

  DecoderBranches(Layer& l, const TensorView& x, const TensorView& y, const DecoderLayer::State& s)
      : all{{l.norm1, l.dropout1, s.norm1, x, l.norm_first ? s.input1 : x, s.sum1,
             l.norm_first ? s.sum1 : s.input2},
            {l.norm2, l.dropout2, s.norm2, l.norm_first ? s.sum1 : s.input2, s.input2, s.sum2,
             l.norm_first ? s.sum2 : s.input3},
            {l.norm3, l.dropout3, s.norm3, l.norm_first ? s.sum2 : s.input3, s.input3,
             l.norm_first ? y : s.sum3, y}} {}
};

// `body` computes attention or the network: body(input, out, add).
template <class Body>
void forward_branch(const DecoderBranch<const LayerNorm>& b, bool norm_first, const Run& run,
                    const Body& body) {
  if (norm_first) forward(b.norm, b.before, b.input, b.norm_state, run);
  copy_dense(b.before, b.sum, run);
  add_branch(b.dropout, b.sum, run,
             [&](const TensorView& out, bool add) { body(b.input, out, add); });
  if (!norm_first) forward(b.norm, b.sum, b.after, b.norm_state, run);
}

// d_before = the gradient of `before`, from that of `after`; absent: not computed. `body`:
// body(input, d_branch, d_input).
template <class Body>
void backward_branch(const DecoderBranch<LayerNorm>& b, bool norm_first, const TensorView& d_after,
                     const TensorView& d_before, const Run& run, const Body& body) {
  const Arena::Frame frame(run.scratch);
  const TensorView d_input = run.scratch.take(d_after.dtype, d_after.dims());
  TensorView d_sum = d_after;
  if (!norm_first) {
    d_sum = run.scratch.take(d_after.dtype, d_after.dims());
    backward(b.norm, b.sum, d_after, b.norm_state, d_sum, run);
  }
  branch_gradient(b.dropout, d_sum, run,
                  [&](const TensorView& d_branch) { body(b.input, d_branch, d_input); });
  if (d_before.defined()) copy_dense(d_sum, d_before, run);
  if (norm_first)
    backward(b.norm, b.before, d_input, b.norm_state, d_before, run, d_before.defined());
  else if (d_before.defined())
    add_dense(d_input, d_before, run);
}

}  // namespace

DecoderLayer make_decoder_layer(int64_t features, int64_t num_heads, const DecoderLayerSpec& spec,
                                DType dtype) {
  const auto attention = [&](MultiHeadAttentionSpec s, uint64_t stream) {
    s.dropout = spec.dropout;
    s.dropout_stream = spec.dropout_stream + stream;
    return make_multi_head_attention(features, num_heads, s, dtype);
  };
  const LayerNormOptions norm{.epsilon = spec.norm_epsilon};
  const int64_t hidden = spec.hidden_features == 0 ? 4 * features : spec.hidden_features;
  DecoderLayer layer;
  layer.self_attn = attention(spec.self_attention, 0);
  layer.multihead_attn = attention(spec.cross_attention, 1);
  layer.network = make_feed_forward(features, hidden, {.activation = spec.activation}, dtype);
  layer.norm1 = make_layer_norm(features, norm, dtype);
  layer.norm2 = make_layer_norm(features, norm, dtype);
  layer.norm3 = make_layer_norm(features, norm, dtype);
  layer.network.dropout = {spec.dropout, spec.dropout_stream + 2};
  layer.dropout1 = {spec.dropout, spec.dropout_stream + 3};
  layer.dropout2 = {spec.dropout, spec.dropout_stream + 4};
  layer.dropout3 = {spec.dropout, spec.dropout_stream + 5};
  layer.norm_first = spec.norm_first;
  return layer;
}

DecoderLayer::State make_state(const DecoderLayer& layer, Shape x, Shape memory, Arena& arena) {
  const DType dtype = layer.self_attn.dtype();
  DecoderLayer::State s;
  s.self_attention = make_state(layer.self_attn, x, arena);
  s.cross_attention = make_state(layer.multihead_attn, x, arena, memory);
  s.network = make_state(layer.network, x, arena);
  s.norm1 = make_state(layer.norm1, x, dtype, arena);
  s.norm2 = make_state(layer.norm2, x, dtype, arena);
  s.norm3 = make_state(layer.norm3, x, dtype, arena);
  for (TensorView* view : {&s.input2, &s.input3, &s.sum1, &s.sum2}) *view = arena.take(dtype, x);
  (layer.norm_first ? s.input1 : s.sum3) = arena.take(dtype, x);
  return s;
}

void forward(const DecoderLayer& layer, const TensorView& x, const TensorView& memory,
             const TensorView& y, const DecoderLayer::State& state, const Run& run,
             const DecoderCalls& calls) {
  const DecoderBranches branches(layer, x, y, state);
  const auto& [self, cross, network] = branches.all;
  const bool first = layer.norm_first;
  forward_branch(self, first, run, [&](const TensorView& in, const TensorView& out, bool add) {
    MultiHeadCall call = calls.self_attention;
    call.add = add;
    forward(layer.self_attn, in, out, state.self_attention, run, call);
  });
  forward_branch(cross, first, run, [&](const TensorView& in, const TensorView& out, bool add) {
    MultiHeadCall call = calls.cross_attention;
    call.key_value = memory;
    call.add = add;
    forward(layer.multihead_attn, in, out, state.cross_attention, run, call);
  });
  forward_branch(network, first, run, [&](const TensorView& in, const TensorView& out, bool add) {
    forward(layer.network, in, out, state.network, run, add);
  });
}

void backward(DecoderLayer& layer, const TensorView& x, const TensorView& memory,
              const TensorView& d_y, const DecoderLayer::State& state, const TensorView& d_x,
              const TensorView& d_memory, const Run& run, const DecoderCalls& calls) {
  const Arena::Frame frame(run.scratch);
  const DecoderBranches branches(layer, x, TensorView(), state);
  const auto& [self, cross, network] = branches.all;
  const bool first = layer.norm_first;
  const TensorView d_after2 = run.scratch.take(x.dtype, x.dims());
  const TensorView d_after1 = run.scratch.take(x.dtype, x.dims());
  using View = const TensorView&;
  backward_branch(network, first, d_y, d_after2, run, [&](View in, View d_branch, View d_in) {
    backward(layer.network, in, d_branch, state.network, d_in, run);
  });
  backward_branch(cross, first, d_after2, d_after1, run, [&](View in, View d_branch, View d_in) {
    MultiHeadCall call = calls.cross_attention;
    call.key_value = memory;
    if (!d_memory.defined())
      return backward(layer.multihead_attn, in, d_branch, state.cross_attention, d_in, run, false,
                      call);
    // One `add` serves d_in and d_memory: d_in begins at 0.
    if (!run.counts() && !d_in.empty())
      std::memset(d_in.data, 0, static_cast<size_t>(d_in.count() * size_of(d_in.dtype)));
    backward(layer.multihead_attn, in, d_branch, state.cross_attention, d_in, run, true, call,
             {.key_value = d_memory});
  });
  backward_branch(self, first, d_after1, d_x, run, [&](View in, View d_branch, View d_in) {
    backward(layer.self_attn, in, d_branch, state.self_attention, d_in, run, false,
             calls.self_attention);
  });
}

}  // namespace rapt::nn

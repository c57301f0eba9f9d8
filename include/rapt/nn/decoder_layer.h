#pragma once
// A Transformer block of self-attention, attention to an encoder's output ("memory") and a
// position-wise network, PyTorch's nn.TransformerDecoderLayer(batch_first=True):
//
//   norm_first   h1 = x + dropout1(self_attn(norm1(x))),
//                h2 = h1 + dropout2(multihead_attn(norm2(h1), memory)),
//                y = h2 + dropout3(network(norm3(h2)))
//   else         h1 = norm1(x + dropout1(self_attn(x))),
//                h2 = norm2(h1 + dropout2(multihead_attn(h1, memory))),
//                y = norm3(h2 + dropout3(network(h2)))
//
//   x, y, d_x, d_y [..., length, features]; memory, d_memory [..., memory_length, features]; dense
//
// Vaswani et al. 2017, arXiv:1706.03762, section 3.1. Self-attention has no mask of its own: give
// it one, usually a causal one, in the spec or in the call.
#include "rapt/nn/feed_forward.h"
#include "rapt/nn/layer_norm.h"
#include "rapt/nn/multi_head_attention.h"

namespace rapt::nn {

struct DecoderLayer {
  MultiHeadAttention self_attn, multihead_attn;
  FeedForward network;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout1, dropout2, dropout3;
  bool norm_first = false;

  int64_t features() const noexcept { return self_attn.embed_dim; }

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("self_attn", layer.self_attn);
    f("multihead_attn", layer.multihead_attn);
    FeedForward::members(layer.network, f);
    f("norm1", layer.norm1);
    f("norm2", layer.norm2);
    f("norm3", layer.norm3);
  }

  // What a backward call needs of its forward call.
  struct State {
    MultiHeadAttention::State self_attention;   // of self_attn
    MultiHeadAttention::State cross_attention;  // of multihead_attn
    FeedForward::State network;                 // of the network
    LayerNorm::State norm1;                     // of norm1
    LayerNorm::State norm2;                     // of norm2
    LayerNorm::State norm3;                     // of norm3
    TensorView input1, input2, input3;  // of the branches; input1 is absent unless norm_first
    TensorView sum1, sum2, sum3;        // behind the branches; sum3 is absent if norm_first
  };
};

// Sizes, and what differs from the default.
struct DecoderLayerSpec {
  int64_t hidden_features = 0;  // 0: four times the features
  Activation activation = Activation::relu;
  bool norm_first = false;
  double dropout = 0;           // of weights, of hidden and of the branches, in [0, 1)
  uint64_t dropout_stream = 0;  // the layer draws from this stream and the five behind it
  double norm_epsilon = 1e-5;
  MultiHeadAttentionSpec self_attention = {};   // its dropout is that of this struct
  MultiHeadAttentionSpec cross_attention = {};  // likewise
};

// Throws as make_multi_head_attention() and make_layer_norm().
DecoderLayer make_decoder_layer(int64_t features, int64_t num_heads,
                                const DecoderLayerSpec& spec = {}, DType dtype = DType::f32);

// `x`, `memory`: shapes.
DecoderLayer::State make_state(const DecoderLayer& layer, Shape x, Shape memory, Arena& arena);

// Masks, captures, ... of a call, for each attention. `key_value` and `add` must not be set.
struct DecoderCalls {
  MultiHeadCall self_attention = {};   // of self_attn
  MultiHeadCall cross_attention = {};  // of multihead_attn
};

// Writes y and the state.
void forward(const DecoderLayer& layer, const TensorView& x, const TensorView& memory,
             const TensorView& y, const DecoderLayer::State& state, const Run& run,
             const DecoderCalls& calls = {});

// d_memory is added to: the blocks of a decoder share it. Either of d_x and d_memory may be absent.
void backward(DecoderLayer& layer, const TensorView& x, const TensorView& memory,
              const TensorView& d_y, const DecoderLayer::State& state, const TensorView& d_x,
              const TensorView& d_memory, const Run& run, const DecoderCalls& calls = {});

}  // namespace rapt::nn

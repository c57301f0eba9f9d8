#pragma once
// A Transformer block of self-attention and a position-wise network, PyTorch's
// nn.TransformerEncoderLayer(batch_first=True):
//
//   norm_first   h = x + dropout1(attention(norm1(x))),  y = h + dropout2(network(norm2(h)))
//                (Xiong et al. 2020, arXiv:2002.04745, table 1, right)
//   else         h = norm1(x + dropout1(attention(x))),  y = norm2(h + dropout2(network(h)))
//                (Vaswani et al. 2017, arXiv:1706.03762, section 3.1)
//
//   x, y, d_x, d_y [..., length, features], dense
//
// With a causal mask it is the block of a decoder without cross-attention, as GPT has it.
#include "rapt/nn/feed_forward.h"
#include "rapt/nn/multi_head_attention.h"
#include "rapt/nn/norm.h"

namespace rapt::nn {

struct EncoderLayer {
  MultiHeadAttention self_attn;
  FeedForward network;
  Norm norm1, norm2;
  Dropout dropout1, dropout2;
  bool norm_first = false;

  int64_t features() const noexcept { return self_attn.embed_dim; }

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("self_attn", layer.self_attn);
    FeedForward::members(layer.network, f);
    f("norm1", layer.norm1);
    f("norm2", layer.norm2);
  }

  // What a backward call needs of its forward call.
  struct State {
    MultiHeadAttention::State attention;  // of self_attn
    FeedForward::State network;           // of the network
    Norm::State norm1;                    // of norm1
    Norm::State norm2;                    // of norm2
    TensorView normed1;                   // norm_first: norm1(x)
    TensorView residual;                  // norm_first: h; else x + dropout1(attention(x))
    TensorView normed2;                   // norm_first: norm2(h); else h
    TensorView sum;                       // else: h + dropout2(network(h))
  };
};

// Sizes, and what differs from the default.
struct EncoderLayerSpec {
  int64_t hidden_features = 0;  // 0: four times the features
  Activation activation = Activation::relu;
  bool norm_first = false;
  double dropout = 0;           // of weights, of hidden and of both branches, in [0, 1)
  uint64_t dropout_stream = 0;  // the layer draws from this stream and the three behind it
  double norm_epsilon = 1e-5;
  bool rms_norm = false;     // RmsNorm, without biases, where PyTorch's block has LayerNorm
  bool gated = false;        // a gated network (feed_forward.h)
  bool network_bias = true;  // of both products of the network
  MultiHeadAttentionSpec attention = {};  // its dropout and stream are those of this struct
};

// Throws as make_multi_head_attention() and make_layer_norm().
EncoderLayer make_encoder_layer(int64_t features, int64_t num_heads,
                                const EncoderLayerSpec& spec = {}, DType dtype = DType::f32);

// `x`: the shape of x.
EncoderLayer::State make_state(const EncoderLayer& layer, Shape x, Arena& arena);

// `call`: masks, captures, ... of this call; `add` must be off.
void forward(const EncoderLayer& layer, const TensorView& x, const TensorView& y,
             const EncoderLayer::State& state, const Run& run, const MultiHeadCall& call = {});

// `call` as for forward(). d_x may not be d_y.
void backward(EncoderLayer& layer, const TensorView& x, const TensorView& d_y,
              const EncoderLayer::State& state, const TensorView& d_x, const Run& run,
              const MultiHeadCall& call = {});

}  // namespace rapt::nn

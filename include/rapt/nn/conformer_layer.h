#pragma once
// A Conformer block (Gulati et al. 2020, arXiv:2005.08100, section 2.4): attention relates all
// positions, a convolution relates neighbours, between two half steps of a position-wise network:
//
//   a = x + 1/2 dropout1(ffn1(ffn1_layer_norm(x)))
//   b = a + dropout2(self_attn(self_attn_layer_norm(a)))
//   c = b + dropout3(conv_module(b))
//   y = final_layer_norm(c + 1/2 dropout4(ffn2(ffn2_layer_norm(c))))
//
//   x, y, d_x, d_y [batch, length, features], dense
//
// The networks use SiLU. The convolution module has its norm inside, and a LayerNorm over channels
// where the paper has batch normalisation (conformer_convolution.h says why). The factor 1/2
// changes exponents alone, forward and backward.
//
// The paper's attention has relative positions of Transformer-XL. Here positions are what the
// attention's spec says: `rotary`, `relative` or a score, or none, since the convolution knows its
// neighbours. Masks act on attention only: the convolution reads all positions. A causal block has
// both ConvPadding::causal and the attention mask "causal".
#include "rapt/nn/conformer_convolution.h"
#include "rapt/nn/feed_forward.h"
#include "rapt/nn/multi_head_attention.h"

namespace rapt::nn {

struct ConformerLayer {
  LayerNorm ffn1_layer_norm;
  FeedForward ffn1;
  LayerNorm self_attn_layer_norm;
  MultiHeadAttention self_attn;
  ConformerConvolution conv_module;
  LayerNorm ffn2_layer_norm;
  FeedForward ffn2;
  LayerNorm final_layer_norm;
  Dropout dropout1, dropout2, dropout3, dropout4;  // behind the branches, in their order

  int64_t features() const noexcept { return self_attn.embed_dim; }

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("ffn1_layer_norm", layer.ffn1_layer_norm);
    f("ffn1", layer.ffn1);
    f("self_attn_layer_norm", layer.self_attn_layer_norm);
    f("self_attn", layer.self_attn);
    f("conv_module", layer.conv_module);
    f("ffn2_layer_norm", layer.ffn2_layer_norm);
    f("ffn2", layer.ffn2);
    f("final_layer_norm", layer.final_layer_norm);
  }

  // What a backward call needs of its forward call. The tensors are [batch, length, features].
  struct State {
    LayerNorm::State ffn1_layer_norm;         // of ffn1_layer_norm
    FeedForward::State ffn1;                  // of ffn1
    LayerNorm::State self_attn_layer_norm;    // of self_attn_layer_norm
    MultiHeadAttention::State attention;      // of self_attn
    ConformerConvolution::State conv_module;  // of conv_module
    LayerNorm::State ffn2_layer_norm;         // of ffn2_layer_norm
    FeedForward::State ffn2;                  // of ffn2
    LayerNorm::State final_layer_norm;        // of final_layer_norm
    TensorView ffn1_input;                    // ffn1_layer_norm(x)
    TensorView after_ffn1;                    // a
    TensorView attention_input;               // self_attn_layer_norm(a)
    TensorView after_attention;               // b
    TensorView after_convolution;             // c
    TensorView ffn2_input;                    // ffn2_layer_norm(c)
    TensorView after_ffn2;                    // what final_layer_norm reads
  };
};

// Sizes, and what differs from the default.
struct ConformerLayerSpec {
  int64_t hidden_features = 0;              // of both networks; 0: four times the features
  int64_t kernel = 31;                      // of the depthwise convolution
  ConvPadding padding = ConvPadding::same;  // of it: same or causal
  double dropout = 0;           // of weights, of hidden and of the four branches, in [0, 1)
  uint64_t dropout_stream = 0;  // the layer draws from this stream and the six behind it
  double norm_epsilon = 1e-5;   // of all norms
  MultiHeadAttentionSpec attention = {};  // its dropout and stream are those of this struct
};

// Throws as make_multi_head_attention() and make_conformer_convolution().
ConformerLayer make_conformer_layer(int64_t features, int64_t num_heads,
                                    const ConformerLayerSpec& spec = {}, DType dtype = DType::f32);

// `x`: the shape of x. Throws Error(shape) unless it is [batch, length, features].
ConformerLayer::State make_state(const ConformerLayer& layer, Shape x, Arena& arena);

// `call`: masks, captures, ... of the attention of this call; `add` must be off, and there is no
// key_value. y may not be x. Shapes are checked before anything is written. Errors of the call's
// options are found by attention: y is untouched then, and the state is unspecified.
void forward(const ConformerLayer& layer, const TensorView& x, const TensorView& y,
             const ConformerLayer::State& state, const Run& run, const MultiHeadCall& call = {});

// Writes d_x, adds to the gradients of the parameters. `call` as for forward(). d_x may be d_y.
void backward(ConformerLayer& layer, const TensorView& x, const TensorView& d_y,
              const ConformerLayer::State& state, const TensorView& d_x, const Run& run,
              const MultiHeadCall& call = {});

}  // namespace rapt::nn

#pragma once
// The position-wise network of a Transformer block (Vaswani et al. 2017, arXiv:1706.03762, eq. 2):
//
//   hidden = dropout(activation(x W1^T + b1)),  y = hidden W2^T + b2
//
// or gated (Shazeer 2020, arXiv:2002.05202, eq. 6; SwiGLU with silu, as in Llama):
//
//   hidden = dropout(activation(x Wg^T + bg) * (x Wu^T + bu)),  W1 = [Wg; Wu], gate first
//
//   x, y, d_x, d_y [..., features], dense; hidden [..., hidden_features]
//   W1 [hidden_features, features], gated [2 hidden_features, features]
#include "rapt/nn/dropout.h"
#include "rapt/nn/linear.h"

namespace rapt::nn {

struct FeedForward {
  Linear linear1, linear2;
  Activation activation = Activation::relu;
  bool gated = false;  // the second formula
  Dropout dropout;

  // The columns of hidden.
  int64_t hidden_features() const { return linear2.in_features(); }

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("linear1", layer.linear1);
    f("linear2", layer.linear2);
  }

  // What a backward call needs of its forward call.
  struct State {
    TensorView before;  // [..., hidden_features], gated twice as many: before the activation
    TensorView hidden;  // [..., hidden_features]
  };
};

// What differs from the default.
struct FeedForwardSpec {
  Activation activation = Activation::relu;
  bool gated = false;  // the second formula
  bool bias = true;    // b1 and b2
};

// Makes the layer.
FeedForward make_feed_forward(int64_t features, int64_t hidden_features,
                              const FeedForwardSpec& spec = {}, DType dtype = DType::f32);

// `x`: the shape of x.
FeedForward::State make_state(const FeedForward& layer, Shape x, Arena& arena);

// y, or y + that if `add`.
void forward(const FeedForward& layer, const TensorView& x, const TensorView& y,
             const FeedForward::State& state, const Run& run, bool add = false);

// Writes d_x, or adds to it if `add`; adds to the gradients of the parameters.
void backward(FeedForward& layer, const TensorView& x, const TensorView& d_y,
              const FeedForward::State& state, const TensorView& d_x, const Run& run,
              bool add = false);

}  // namespace rapt::nn

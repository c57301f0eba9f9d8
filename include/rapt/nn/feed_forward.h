#pragma once
// The position-wise network of a Transformer block (Vaswani et al. 2017, arXiv:1706.03762, eq. 2):
//
//   hidden = dropout(activation(x W1^T + b1)),  y = hidden W2^T + b2
//
//   x, y, d_x, d_y [..., features], dense; hidden [..., hidden_features]
#include "rapt/nn/dropout.h"
#include "rapt/nn/linear.h"

namespace rapt::nn {

struct FeedForward {
  Linear linear1, linear2;
  Activation activation = Activation::relu;
  Dropout dropout;

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("linear1", layer.linear1);
    f("linear2", layer.linear2);
  }

  // What a backward call needs of its forward call.
  struct State {
    TensorView before;  // [..., hidden_features]: before the activation
    TensorView hidden;  // [..., hidden_features]
  };
};

// Makes the layer.
FeedForward make_feed_forward(int64_t features, int64_t hidden_features,
                              Activation activation = Activation::relu, DType dtype = DType::f32);

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

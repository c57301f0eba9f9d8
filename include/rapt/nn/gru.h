#pragma once
// Gated recurrent units (Cho et al. 2014, arXiv:1406.1078) in the form of PyTorch's nn.GRU with
// batch_first, with its names, its layers and its directions:
//
//   r  = sigma(W_ir x_t + b_ir + W_hr h + b_hr)
//   z  = sigma(W_iz x_t + b_iz + W_hz h + b_hz)
//   n  = tanh(W_in x_t + b_in + r (W_hn h + b_hn))
//   h' = (1 - z) n + z h
//
//   x   [batch, length, in]
//   y   [batch, length, width]                        h' of each step of the last layer
//   h0  [layers * directions, batch, hidden]          h before the first step; absent: 0
//   h_n [layers * directions, batch, hidden]          h after the last step
//
// sigma is the logistic function. `width` is hidden, or 2 hidden if bidirectional: y then holds the
// forward direction, then the reverse one, which begins at the last position and stores its h' of a
// position there. Each layer but the first reads the y of the one before. h is carried from step to
// step in f32, or in f64 for f64, also where tensors have 16 bits.
//
// The products of x of all steps are one product, and so are those of the parameters' gradients.
#include <vector>

#include "rapt/nn/parameter.h"
#include "rapt/nn/run.h"

namespace rapt::nn {

struct Gru {
  // A direction of a layer; rows of the weights are those of r, z and n.
  struct Direction {
    Parameter weight_ih;         // [3 hidden, in], or [3 hidden, width] beyond the first layer
    Parameter weight_hh;         // [3 hidden, hidden]
    Parameter bias_ih, bias_hh;  // [3 hidden], or absent
  };
  std::vector<Direction> directions;  // of each layer: forward and, if bidirectional, reverse
  bool bidirectional = false;

  int64_t in_features() const { return directions.at(0).weight_ih.value.dim(1); }
  int64_t hidden() const { return directions.at(0).weight_hh.value.dim(1); }
  int64_t directions_per_layer() const { return bidirectional ? 2 : 1; }
  int64_t layers() const {
    return static_cast<int64_t>(directions.size()) / directions_per_layer();
  }
  int64_t width() const { return directions_per_layer() * hidden(); }

  // weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_ih_l0_reverse, ...
  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    for (size_t i = 0; i < layer.directions.size(); ++i) {
      const size_t per_layer = layer.bidirectional ? 2 : 1;
      const std::string end =
          "_l" + std::to_string(i / per_layer) + (i % per_layer == 1 ? "_reverse" : "");
      auto& direction = layer.directions[i];
      f(("weight_ih" + end).c_str(), direction.weight_ih);
      f(("weight_hh" + end).c_str(), direction.weight_hh);
      f(("bias_ih" + end).c_str(), direction.bias_ih);
      f(("bias_hh" + end).c_str(), direction.bias_hh);
    }
  }

  // What a backward call needs of its forward call.
  struct State {
    // [layers * directions, batch, length, 5 hidden], f64 for f64, else f32: r, z, n, W_hn h + b_hn
    // and h before the step.
    TensorView gates;
    TensorView between;  // [layers - 1, batch, length, width]: y of all layers but the last
  };
};

// What differs from the default.
struct GruOptions {
  int64_t layers = 1;
  bool bidirectional = false;
  bool bias = true;
};

// Throws Error(argument) for fewer than one layer, Error(argument, shape) for negative sizes.
Gru make_gru(int64_t in_features, int64_t hidden, const GruOptions& options = {},
             DType dtype = DType::f32);

// Takes the state from an arena.
Gru::State make_state(const Gru& layer, int64_t batch, int64_t length, Arena& arena);

// Hidden states before the first and after the last step.
struct GruHidden {
  TensorView h0 = {};   // an input
  TensorView h_n = {};  // an output; absent: not stored
};
// Writes y and the state.
void forward(const Gru& layer, const TensorView& x, const TensorView& y, const Gru::State& state,
             const Run& run, const GruHidden& hidden = {});

// Gradients of the hidden states; absent ones are not computed, or 0.
struct GruHiddenGradients {
  TensorView d_h_n = {};  // an input; absent: 0
  TensorView d_h0 = {};   // an output; absent: not computed
};
// Writes d_x, or adds to it if `add`; adds to the gradients of the parameters.
void backward(Gru& layer, const TensorView& x, const TensorView& d_y, const Gru::State& state,
              const TensorView& d_x, const Run& run, bool add = false,
              const GruHiddenGradients& hidden = {});

}  // namespace rapt::nn

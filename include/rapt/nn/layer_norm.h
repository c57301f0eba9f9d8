#pragma once
// Layer normalisation (Ba, Kiros & Hinton 2016, arXiv:1607.06450, eq. 4), PyTorch's nn.LayerNorm
// over the last dimension. With n = features, for each row of x:
//
//   mean = sum(x) / n,  rstd = 1 / sqrt(sum((x - mean)^2) / n + epsilon),  x^ = (x - mean) rstd
//   y = x^ weight + bias
//   g = d_y weight,  d_x = rstd (g - sum(g) / n - x^ sum(g x^) / n)
//   d_weight += the sum of d_y x^ over rows,  d_bias += the sum of d_y over rows
//
//   x, y, d_x, d_y [..., features], dense; weight, bias [features] or absent
//
// The variance is summed from the differences to the mean, so it does not cancel. y may be x; d_x
// may be x or d_y.
#include "rapt/nn/parameter.h"
#include "rapt/nn/run.h"

namespace rapt::nn {

struct LayerNorm {
  Parameter weight, bias;
  int64_t features = 0;
  double epsilon = 1e-5;

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("weight", layer.weight);
    f("bias", layer.bias);
  }

  // What a backward call needs of its forward call.
  struct State {
    TensorView mean, rstd;  // [...], f64 for f64, else f32
  };
};

// What differs from the default.
struct LayerNormOptions {
  bool weight = true, bias = true;  // both false: PyTorch's elementwise_affine = False
  double epsilon = 1e-5;
};

// A weight of ones and a bias of zeros. Throws Error(argument) for an epsilon that is negative or
// not finite.
LayerNorm make_layer_norm(int64_t features, const LayerNormOptions& options = {},
                          DType dtype = DType::f32);

// `x`: the shape of x. `dtype`: that of x.
LayerNorm::State make_state(const LayerNorm& layer, Shape x, DType dtype, Arena& arena);

// Writes y and the state.
void forward(const LayerNorm& layer, const TensorView& x, const TensorView& y,
             const LayerNorm::State& state, const Run& run);

// Writes d_x, or adds to it if `add`; adds to the gradients of the parameters.
void backward(LayerNorm& layer, const TensorView& x, const TensorView& d_y,
              const LayerNorm::State& state, const TensorView& d_x, const Run& run,
              bool add = false);

}  // namespace rapt::nn

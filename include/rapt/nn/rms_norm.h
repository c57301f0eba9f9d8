#pragma once
// Root mean square layer normalisation (Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4), PyTorch's
// nn.RMSNorm over the last dimension. With n = features, for each row of x:
//
//   rstd = 1 / sqrt(sum(x^2) / n + epsilon),  x^ = x rstd,  y = x^ weight
//   g = d_y weight,  d_x = rstd (g - x^ sum(g x^) / n)
//   d_weight += the sum of d_y x^ over rows
//
//   x, y, d_x, d_y [..., features], dense; weight [features] or absent
//
// y may be x; d_x may be x or d_y.
#include "rapt/nn/parameter.h"
#include "rapt/nn/run.h"

namespace rapt::nn {

struct RmsNorm {
  Parameter weight;
  int64_t features = 0;
  double epsilon = 1e-6;

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("weight", layer.weight);
  }

  // What a backward call needs of its forward call.
  struct State {
    TensorView rstd;  // [...], f64 for f64, else f32
  };
};

// What differs from the default.
struct RmsNormOptions {
  bool weight = true;
  // PyTorch's default is the machine epsilon of the dtype of x: 2^-23 for f32, 2^-52 for f64.
  // Models give their own: 1e-5 and 1e-6 are common.
  double epsilon = 1e-6;
};

// A weight of ones. Throws Error(argument) for an epsilon that is negative or not finite.
RmsNorm make_rms_norm(int64_t features, const RmsNormOptions& options = {},
                      DType dtype = DType::f32);

// `x`: the shape of x. `dtype`: that of x.
RmsNorm::State make_state(const RmsNorm& layer, Shape x, DType dtype, Arena& arena);

// Writes y and the state.
void forward(const RmsNorm& layer, const TensorView& x, const TensorView& y,
             const RmsNorm::State& state, const Run& run);

// Writes d_x, or adds to it if `add`; adds to the gradients of the parameters.
void backward(RmsNorm& layer, const TensorView& x, const TensorView& d_y,
              const RmsNorm::State& state, const TensorView& d_x, const Run& run, bool add = false);

}  // namespace rapt::nn

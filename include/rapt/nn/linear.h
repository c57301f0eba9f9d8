#pragma once
// y = activation(x weight^T + bias), PyTorch's nn.Linear with an activation in its store.
//
//   x [..., in_features], y [..., out_features], weight [out_features, in_features],
//   bias [out_features] or absent
//
// The leading dimensions of x and of y each merge into rows at equal distances (as_matrix).
#include "rapt/nn/parameter.h"
#include "rapt/nn/run.h"
#include "rapt/product.h"

namespace rapt::nn {

struct Linear {
  Parameter weight, bias;

  int64_t in_features() const { return weight.value.dim(1); }
  int64_t out_features() const { return weight.value.dim(0); }

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("weight", layer.weight);
    f("bias", layer.bias);
  }
};

// Throws Error(argument) for a negative number of features.
Linear make_linear(int64_t in_features, int64_t out_features, bool bias = true,
                   DType dtype = DType::f32);

// What differs from the default.
struct LinearOptions {
  Activation activation = Activation::none;
  TensorView before_activation = {};  // like y, an output: x weight^T + bias; absent: not stored
  bool add = false;                   // adds to what y holds
};

// Writes y. There is no state: the backward call reads x.
void forward(const Linear& layer, const TensorView& x, const TensorView& y, const Run& run,
             const LinearOptions& options = {});

// d_x = d_y weight, or d_x + that if `add`; d_y is the gradient before the activation
// (activation_gradient() in activations.h makes it).
void backward(Linear& layer, const TensorView& x, const TensorView& d_y, const TensorView& d_x,
              const Run& run, bool add = false);

}  // namespace rapt::nn

#pragma once
// A table of rows, PyTorch's nn.Embedding: of tokens, or of learned positions.
//
//   y[..., :] = weight[tokens[...], :],  d_weight[t, :] += the sum of d_y[..., :] where tokens = t
//
//   tokens [...] i64, dense; y, d_y [..., features], dense; weight [count, features]
//
// A token outside [0, count) is an Error(argument) that names its position; nothing is written.
// There is no padding index.
#include "rapt/nn/parameter.h"
#include "rapt/nn/run.h"

namespace rapt::nn {

struct Embedding {
  Parameter weight;

  int64_t count() const { return weight.value.dim(0); }
  int64_t features() const { return weight.value.dim(1); }

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("weight", layer.weight);
  }
};

// Makes the layer.
Embedding make_embedding(int64_t count, int64_t features, DType dtype = DType::f32);

// `add`: adds the rows to what y holds, as positions are added to tokens.
void forward(const Embedding& layer, const TensorView& tokens, const TensorView& y, const Run& run,
             bool add = false);

// Tokens have no gradient. Rows that share a token are added in the order of their positions, in
// blocks of 256. Takes 8 (count + tokens) bytes of scratch.
void backward(Embedding& layer, const TensorView& tokens, const TensorView& d_y, const Run& run);

}  // namespace rapt::nn

#pragma once
// The norm of a Transformer block: a LayerNorm or an RmsNorm, as the model's spec chooses.
//
//   x, y, d_x, d_y [..., features], dense
#include <variant>

#include "rapt/nn/layer_norm.h"
#include "rapt/nn/rms_norm.h"

namespace rapt::nn {

struct Norm {
  std::variant<LayerNorm, RmsNorm> kind;  // its parameters are those of the norm

  template <class Self, class F>
  static void members(Self& norm, const F& f) {
    std::visit([&](auto& one) { std::remove_cvref_t<decltype(one)>::members(one, f); }, norm.kind);
  }

  // What a backward call needs of its forward call.
  struct State {
    TensorView mean, rstd;  // of the norm; mean is absent of an RmsNorm
  };
};

// What differs from the default.
struct NormSpec {
  bool rms = false;  // an RmsNorm
  double epsilon = 1e-5;
};

// Throws as make_layer_norm().
Norm make_norm(int64_t features, const NormSpec& spec = {}, DType dtype = DType::f32);

// `x`: the shape of x. `dtype`: that of x.
Norm::State make_state(const Norm& norm, Shape x, DType dtype, Arena& arena);

// Writes y and the state.
void forward(const Norm& norm, const TensorView& x, const TensorView& y, const Norm::State& state,
             const Run& run);

// Writes d_x, or adds to it if `add`; adds to the gradients of the parameters.
void backward(Norm& norm, const TensorView& x, const TensorView& d_y, const Norm::State& state,
              const TensorView& d_x, const Run& run, bool add = false);

}  // namespace rapt::nn

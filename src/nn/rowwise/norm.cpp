#include "rapt/nn/norm.h"

namespace rapt::nn {

Norm make_norm(int64_t features, const NormSpec& spec, DType dtype) {
  Norm norm;
  if (spec.rms)
    norm.kind = make_rms_norm(features, {.epsilon = spec.epsilon}, dtype);
  else
    norm.kind = make_layer_norm(features, {.epsilon = spec.epsilon}, dtype);
  return norm;
}

Norm::State make_state(const Norm& norm, Shape x, DType dtype, Arena& arena) {
  if (const auto* rms = std::get_if<RmsNorm>(&norm.kind))
    return {.mean = {}, .rstd = make_state(*rms, x, dtype, arena).rstd};
  const LayerNorm::State state = make_state(std::get<LayerNorm>(norm.kind), x, dtype, arena);
  return {.mean = state.mean, .rstd = state.rstd};
}

void forward(const Norm& norm, const TensorView& x, const TensorView& y, const Norm::State& state,
             const Run& run) {
  if (const auto* rms = std::get_if<RmsNorm>(&norm.kind))
    forward(*rms, x, y, {.rstd = state.rstd}, run);
  else
    forward(std::get<LayerNorm>(norm.kind), x, y, {.mean = state.mean, .rstd = state.rstd}, run);
}

void backward(Norm& norm, const TensorView& x, const TensorView& d_y, const Norm::State& state,
              const TensorView& d_x, const Run& run, bool add) {
  if (auto* rms = std::get_if<RmsNorm>(&norm.kind))
    backward(*rms, x, d_y, {.rstd = state.rstd}, d_x, run, add);
  else
    backward(std::get<LayerNorm>(norm.kind), x, d_y, {.mean = state.mean, .rstd = state.rstd}, d_x,
             run, add);
}

}  // namespace rapt::nn

#include "rapt/nn/feed_forward.h"

#include "rapt/nn/activations.h"
#include "rapt/nn/gated.h"

namespace rapt::nn {

namespace {

// The gate and the factor that it meets: halves of a product [..., 2 hidden_features].
struct GateAndUp {
  TensorView gate, up;

  explicit GateAndUp(const TensorView& both)
      : gate(both.slice(-1, 0, both.shape[both.rank - 1] / 2)),
        up(both.slice(-1, both.shape[both.rank - 1] / 2, both.shape[both.rank - 1])) {}
};

}  // namespace

FeedForward make_feed_forward(int64_t features, int64_t hidden_features,
                              const FeedForwardSpec& spec, DType dtype) {
  FeedForward layer;
  layer.linear1 = make_linear(features, (spec.gated ? 2 : 1) * hidden_features, spec.bias, dtype);
  layer.linear2 = make_linear(hidden_features, features, spec.bias, dtype);
  layer.activation = spec.activation;
  layer.gated = spec.gated;
  return layer;
}

FeedForward::State make_state(const FeedForward& layer, Shape x, Arena& arena) {
  if (x.empty()) throw Error(ErrorCode::shape, "x has rank 0; expected [..., features]");
  TensorView shape(nullptr, layer.linear1.weight.value.dtype(), x, false);
  const auto take = [&](int64_t columns) {
    shape.shape[shape.rank - 1] = columns;
    return arena.take(shape.dtype, shape.dims());
  };
  FeedForward::State state;
  state.before = take(layer.linear1.out_features());
  state.hidden = take(layer.hidden_features());
  return state;
}

void forward(const FeedForward& layer, const TensorView& x, const TensorView& y,
             const FeedForward::State& state, const Run& run, bool add) {
  if (layer.gated) {
    forward(layer.linear1, x, state.before, run);
    const GateAndUp halves(state.before);
    gated_activation(layer.activation, halves.gate, halves.up, state.hidden, run);
  } else {
    forward(layer.linear1, x, state.hidden, run,
            {.activation = layer.activation, .before_activation = state.before});
  }
  forward(layer.dropout, state.hidden, state.hidden, run);
  forward(layer.linear2, state.hidden, y, run, {.add = add});
}

void backward(FeedForward& layer, const TensorView& x, const TensorView& d_y,
              const FeedForward::State& state, const TensorView& d_x, const Run& run, bool add) {
  const Arena::Frame frame(run.scratch);
  const TensorView d_hidden = run.scratch.take(state.hidden.dtype, state.hidden.dims());
  backward(layer.linear2, state.hidden, d_y, d_hidden, run);
  backward(layer.dropout, d_hidden, d_hidden, run);
  if (!layer.gated) {
    activation_gradient(layer.activation, state.before, d_hidden, d_hidden, run);
    return backward(layer.linear1, x, d_hidden, d_x, run, add);
  }
  const TensorView d_before = run.scratch.take(state.before.dtype, state.before.dims());
  const GateAndUp halves(state.before), gradients(d_before);
  gated_activation_gradient(layer.activation, halves.gate, halves.up, d_hidden, gradients.gate,
                            gradients.up, run);
  backward(layer.linear1, x, d_before, d_x, run, add);
}

}  // namespace rapt::nn

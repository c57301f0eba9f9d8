#include "rapt/nn/feed_forward.h"

#include "rapt/nn/activations.h"

namespace rapt::nn {

FeedForward make_feed_forward(int64_t features, int64_t hidden_features, Activation activation,
                              DType dtype) {
  FeedForward layer;
  layer.linear1 = make_linear(features, hidden_features, true, dtype);
  layer.linear2 = make_linear(hidden_features, features, true, dtype);
  layer.activation = activation;
  return layer;
}

FeedForward::State make_state(const FeedForward& layer, Shape x, Arena& arena) {
  if (x.empty()) throw Error(ErrorCode::shape, "x has rank 0; expected [..., features]");
  TensorView shape(nullptr, layer.linear1.weight.value.dtype(), x, false);
  shape.shape[shape.rank - 1] = layer.linear1.out_features();
  return {.before = arena.take(shape.dtype, shape.dims()),
          .hidden = arena.take(shape.dtype, shape.dims())};
}

void forward(const FeedForward& layer, const TensorView& x, const TensorView& y,
             const FeedForward::State& state, const Run& run, bool add) {
  forward(layer.linear1, x, state.hidden, run,
          {.activation = layer.activation, .before_activation = state.before});
  forward(layer.dropout, state.hidden, state.hidden, run);
  forward(layer.linear2, state.hidden, y, run, {.add = add});
}

void backward(FeedForward& layer, const TensorView& x, const TensorView& d_y,
              const FeedForward::State& state, const TensorView& d_x, const Run& run, bool add) {
  const Arena::Frame frame(run.scratch);
  const TensorView d_hidden = run.scratch.take(state.hidden.dtype, state.hidden.dims());
  backward(layer.linear2, state.hidden, d_y, d_hidden, run);
  backward(layer.dropout, d_hidden, d_hidden, run);
  activation_gradient(layer.activation, state.before, d_hidden, d_hidden, run);
  backward(layer.linear1, x, d_hidden, d_x, run, add);
}

}  // namespace rapt::nn

// nn.LayerNorm, nn.RMSNorm ("n.epsilon"), nn.Embedding, and gated activations ("n.activation").
#include "nn/parity/parity.h"
#include "rapt/nn/embedding.h"
#include "rapt/nn/gated.h"
#include "rapt/nn/layer_norm.h"
#include "rapt/nn/rms_norm.h"

namespace parity {
namespace {

using namespace rapt;

template <class Layer>
void compare_norm(Given& given, Layer layer) {
  const Tensor x = given.tensor("x"), d_y = given.tensor("d_y");
  given.load(layer);
  Tensor y(given.dtype(), x.dims()), d_x(given.dtype(), x.dims());
  run([&](nn::Arena& states, const nn::Run& r) {
    const auto state = make_state(layer, x.dims(), x.dtype(), states);
    forward(layer, x, y, state, r);
    backward(layer, x, d_y, state, d_x, r);
  });
  given.compare("y", y);
  given.compare("d_x", d_x);
  given.compare_gradients(layer);
}

}  // namespace

void layer_norm(Given& given) {
  compare_norm(given, nn::make_layer_norm(given.tensor("x").dim(-1),
                                          {.weight = given.has("p.weight"),
                                           .bias = given.has("p.bias"),
                                           .epsilon = given.number("epsilon")},
                                          given.dtype()));
}

void rms_norm(Given& given) {
  compare_norm(given, nn::make_rms_norm(
                          given.tensor("x").dim(-1),
                          {.weight = given.has("p.weight"), .epsilon = given.number("epsilon")},
                          given.dtype()));
}

void embedding(Given& given) {
  const Tensor tokens = given.tensor("tokens"), d_y = given.tensor("d_y");
  const Tensor weight = given.tensor("p.weight");
  nn::Embedding layer = nn::make_embedding(weight.dim(0), weight.dim(1), weight.dtype());
  given.load(layer);
  Tensor y(weight.dtype(), d_y.dims());
  run([&](nn::Arena&, const nn::Run& r) {
    forward(layer, tokens, y, r);
    backward(layer, tokens, d_y, r);
  });
  given.compare("y", y);
  given.compare_gradients(layer);
}

void gated(Given& given) {
  Tensor x = given.tensor("x");
  const Tensor d_y = given.tensor("d_y");
  const auto activation = static_cast<Activation>(given.number("activation"));
  const int64_t n = x.dim(-1) / 2;
  Tensor y(given.dtype(), d_y.dims()), d_x(given.dtype(), x.dims());
  run([&](nn::Arena&, const nn::Run& r) {
    const TensorView gate = x.view().slice(-1, 0, n), up = x.view().slice(-1, n, 2 * n);
    gated_activation(activation, gate, up, y, r);
    gated_activation_gradient(activation, gate, up, d_y, d_x.view().slice(-1, 0, n),
                              d_x.view().slice(-1, n, 2 * n), r);
  });
  given.compare("y", y);
  given.compare("d_x", d_x);
}

}  // namespace parity

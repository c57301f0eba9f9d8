// nn.Linear, and GELU or SiLU behind it ("n.activation": 0 none, 1 relu, 2 gelu, 3 gelu tanh, 4
// silu).
#include "rapt/nn/linear.h"

#include "nn/parity/parity.h"
#include "rapt/nn/activations.h"

namespace parity {

void linear(Given& given) {
  using namespace rapt;
  const Tensor x = given.tensor("x"), d_y = given.tensor("d_y");
  const Tensor weight = given.tensor("p.weight");
  nn::Linear layer =
      nn::make_linear(weight.dim(1), weight.dim(0), given.has("p.bias"), given.dtype());
  given.load(layer);
  const auto activation = static_cast<Activation>(given.number("activation"));
  Tensor y(given.dtype(), d_y.dims()), d_x(given.dtype(), x.dims());
  run([&](nn::Arena& states, const nn::Run& r) {
    const TensorView z = states.take(given.dtype(), d_y.dims());
    const TensorView d_z = states.take(given.dtype(), d_y.dims());
    forward(layer, x, y, r, {.activation = activation, .before_activation = z});
    activation_gradient(activation, z, d_y, d_z, r);
    backward(layer, x, d_z, d_x, r);
  });
  given.compare("y", y);
  given.compare("d_x", d_x);
  given.compare_gradients(layer);
}

}  // namespace parity

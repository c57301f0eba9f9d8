// nn.GRU with batch_first; "h0" may be absent. Numbers: layers, bidirectional (0 or 1), bias (0 or
// 1).
#include "rapt/nn/gru.h"

#include "nn/parity/parity.h"

namespace parity {

void gru(Given& given) {
  using namespace rapt;
  const Tensor x = given.tensor("x"), d_y = given.tensor("d_y"), d_h_n = given.tensor("d_h_n");
  const DType dtype = given.dtype();
  nn::Gru layer = nn::make_gru(x.dim(2), given.tensor("p.weight_hh_l0").dim(1),
                               {.layers = static_cast<int64_t>(given.number("layers")),
                                .bidirectional = given.number("bidirectional") == 1,
                                .bias = given.number("bias") == 1},
                               dtype);
  given.load(layer);
  Tensor y(dtype, d_y.dims()), h_n(dtype, d_h_n.dims()), d_x(dtype, x.dims()), h0, d_h0;
  if (given.has("h0")) h0 = given.tensor("h0"), d_h0 = Tensor(dtype, h0.dims());
  run([&](nn::Arena& states, const nn::Run& r) {
    const nn::Gru::State state = make_state(layer, x.dim(0), x.dim(1), states);
    forward(layer, x, y, state, r, {.h0 = h0, .h_n = h_n});
    backward(layer, x, d_y, state, d_x, r, false, {.d_h_n = d_h_n, .d_h0 = d_h0});
  });
  given.compare("y", y);
  given.compare("h_n", h_n);
  given.compare("d_x", d_x);
  if (given.has("h0")) given.compare("d_h0", d_h0);
  given.compare_gradients(layer);
}

}  // namespace parity

// nn.Conv1d; x and y are [batch, length, channels]. Numbers: groups, stride, dilation, left and
// right, the zeros beside a sequence.
#include "rapt/nn/conv1d.h"

#include "nn/parity/parity.h"

namespace parity {

void conv1d(Given& given) {
  using namespace rapt;
  const Tensor x = given.tensor("x"), d_y = given.tensor("d_y"), weight = given.tensor("p.weight");
  const auto number = [&](const char* name) { return static_cast<int64_t>(given.number(name)); };
  nn::Conv1d layer = nn::make_conv1d(x.dim(2), weight.dim(0), weight.dim(2),
                                     {.groups = number("groups"),
                                      .stride = number("stride"),
                                      .dilation = number("dilation"),
                                      .bias = given.has("p.bias")},
                                     given.dtype());
  layer.left = number("left"), layer.right = number("right");
  given.load(layer);
  Tensor y(given.dtype(), {x.dim(0), layer.output_length(x.dim(1)), weight.dim(0)});
  Tensor d_x(given.dtype(), x.dims());
  run([&](nn::Arena&, const nn::Run& r) {
    forward(layer, x, y, r);
    backward(layer, x, d_y, d_x, r);
  });
  given.compare("y", y);
  given.compare("d_x", d_x);
  given.compare_gradients(layer);
}

}  // namespace parity

// A user's program with layers: one linear layer whose output and gradient are known.
#include <cstdio>
#include <vector>

#include "rapt/nn/linear.h"

int main() {
  namespace nn = rapt::nn;
  nn::Linear layer = nn::make_linear(2, 1);
  layer.weight.value.values<float>()[0] = 3;
  layer.weight.value.values<float>()[1] = 4;
  layer.bias.value.values<float>()[0] = 5;

  const float x[] = {1, 2}, d_y[] = {1};
  float y[1], d_x[2];
  const auto call = [&](nn::Arena& scratch) {
    const rapt::Context context;
    const nn::Run run{.scratch = scratch, .context = context};
    forward(layer, rapt::TensorView(x, {1, 2}), rapt::TensorView(y, {1, 1}), run);
    backward(layer, rapt::TensorView(x, {1, 2}), rapt::TensorView(d_y, {1, 1}),
             rapt::TensorView(d_x, {1, 2}), run);
  };
  nn::Arena counter;
  call(counter);
  std::vector<std::byte> memory(counter.bytes());
  nn::Arena arena(memory);
  call(arena);

  const float d_weight = layer.weight.gradient.values<float>()[1];
  const int wrong = (y[0] != 16) + (d_x[0] != 3) + (d_x[1] != 4) + (d_weight != 2);
  std::printf("y %g, d_x %g %g, %d wrong\n", static_cast<double>(y[0]), static_cast<double>(d_x[0]),
              static_cast<double>(d_x[1]), wrong);
  return wrong;
}

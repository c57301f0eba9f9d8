#include "rapt/nn/linear.h"

#include <gtest/gtest.h>

#include "nn/gradient_check.h"
#include "rapt/nn/activations.h"

namespace {

using namespace rapt;
using namespace nn_tests;

TEST(LinearTest, GradientsAreCentralDifferences) {
  for (const Activation activation :
       {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    nn::Linear layer = nn::make_linear(7, 5, true, DType::f64);
    draw_parameters(layer, 1);
    Tensor x = normal(DType::f64, {2, 3, 7}, 10), d_y = normal(DType::f64, {2, 3, 5}, 11);
    Tensor y(DType::f64, {2, 3, 5}), z(DType::f64, {2, 3, 5}), d_x(DType::f64, {2, 3, 7});
    const auto loss = [&] {
      Counted()([&](nn::Arena&, const nn::Run& run) {
        forward(layer, x, y, run, {.activation = activation, .before_activation = z});
      });
      return dot(y, d_y);
    };
    loss();
    Counted()([&](nn::Arena&, const nn::Run& run) {
      const nn::Arena::Frame frame(run.scratch);
      const TensorView d_z = run.scratch.take(DType::f64, d_y.dims());
      activation_gradient(activation, z, d_y, d_z, run);
      backward(layer, x, d_z, d_x, run);
    });
    std::vector<Checked> checked{{"x", &x, &d_x}};
    add_parameters(layer, checked);
    ASSERT_EQ(checked.size(), 3u);
    expect_gradients(checked, loss);
  }
}

}  // namespace

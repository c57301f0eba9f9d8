// F.cross_entropy of logits and of a linear layer ("n.ignore_index", "n.label_smoothing", "n.sum"),
// F.mse_loss.
#include "nn/parity/parity.h"
#include "rapt/nn/cross_entropy.h"
#include "rapt/nn/linear.h"
#include "rapt/nn/linear_cross_entropy.h"
#include "rapt/nn/mse.h"

namespace parity {
namespace {

using namespace rapt;

nn::CrossEntropyOptions loss_options(const Given& given) {
  return {.ignore_index = static_cast<int64_t>(given.number("ignore_index")),
          .label_smoothing = given.number("label_smoothing"),
          .reduction = given.number("sum") > 0 ? nn::Reduction::sum : nn::Reduction::mean};
}

double d_loss_of(const Given& given) {
  const Tensor d = given.tensor("d_loss");
  return d.dtype() == DType::f64 ? d.values<double>()[0] : d.values<float>()[0];
}

void compare_loss(Given& given, double loss, const Tensor& d_x) {
  const double in_f64[] = {loss};
  const float in_f32[] = {static_cast<float>(loss)};
  given.compare("loss",
                given.dtype() == DType::f64 ? TensorView(in_f64, {}) : TensorView(in_f32, {}));
  given.compare("d_x", d_x);
}

}  // namespace

void cross_entropy(Given& given) {
  const Tensor x = given.tensor("x"), targets = given.tensor("targets");
  const nn::CrossEntropyOptions options = loss_options(given);
  Tensor d_x(given.dtype(), x.dims());
  double loss = 0;
  run([&](nn::Arena& states, const nn::Run& r) {
    const TensorView lse = states.take(DType::f64, targets.dims());
    loss = nn::cross_entropy(x, targets, lse, r, options);
    cross_entropy_gradient(x, targets, lse, d_x, r, options, d_loss_of(given));
  });
  compare_loss(given, loss, d_x);
}

void linear_cross_entropy(Given& given) {
  const Tensor x = given.tensor("x"), targets = given.tensor("targets");
  const Tensor weight = given.tensor("p.weight");
  const nn::CrossEntropyOptions options = loss_options(given);
  nn::Linear layer = nn::make_linear(weight.dim(1), weight.dim(0), false, given.dtype());
  given.load(layer);
  Tensor d_x(given.dtype(), x.dims());
  double loss = 0;
  run([&](nn::Arena& states, const nn::Run& r) {
    const TensorView lse = states.take(given.dtype(), targets.dims());
    loss = nn::linear_cross_entropy(x, layer.weight, targets, lse, r, options);
    linear_cross_entropy_gradient(x, layer.weight, targets, lse, d_x, r, options, d_loss_of(given));
  });
  compare_loss(given, loss, d_x);
  given.compare_gradients(layer);
}

void mean_squared_error(Given& given) {
  const Tensor x = given.tensor("x"), target = given.tensor("target");
  Tensor d_x(given.dtype(), x.dims());
  double loss = 0;
  run([&](nn::Arena&, const nn::Run& r) {
    loss = nn::mean_squared_error(x, target, r);
    mean_squared_error_gradient(x, target, d_x, r, d_loss_of(given));
  });
  compare_loss(given, loss, d_x);
}

}  // namespace parity

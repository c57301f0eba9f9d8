#include "rapt/nn/linear.h"

namespace rapt::nn {
namespace {

void need_workspace(const Linear& layer, const TensorView& x, const Run& run) {
  run.scratch.need(product_workspace_bytes(as_matrix(x).shape[0], layer.in_features(),
                                           layer.out_features(), layer.weight.value.dtype(),
                                           run.context));
}

}  // namespace

Linear make_linear(int64_t in_features, int64_t out_features, bool bias, DType dtype) {
  Linear layer;
  layer.weight = make_parameter(dtype, {out_features, in_features});
  if (bias) layer.bias = make_parameter(dtype, {out_features}, Init::fan_in_uniform(in_features));
  return layer;
}

void forward(const Linear& layer, const TensorView& x, const TensorView& y, const Run& run,
             const LinearOptions& options) {
  if (run.counts()) return need_workspace(layer, x, run);
  ProductOptions to{.activation = options.activation, .add = options.add};
  if (layer.bias.defined()) to.bias = layer.bias.value.view();
  if (options.before_activation.defined())
    to.before_activation = as_matrix(options.before_activation);
  multiply(as_matrix(x), layer.weight.value.view(), as_matrix(y), to, run.context,
           run.scratch.rest());
}

void backward(Linear& layer, const TensorView& x, const TensorView& d_y, const TensorView& d_x,
              const Run& run, bool add) {
  if (run.counts()) return need_workspace(layer, x, run);
  const TensorView d_out = as_matrix(d_y);
  const bool learns = layer.weight.learns() || (layer.bias.defined() && layer.bias.learns());
  if (learns)
    add_weight_gradient(d_out, as_matrix(x),
                        layer.weight.learns() ? layer.weight.gradient.view() : TensorView(),
                        layer.bias.learns() ? layer.bias.gradient.view() : TensorView(),
                        run.context, run.scratch.rest());
  if (d_x.defined())
    multiply_gradient(d_out, layer.weight.value.view(), as_matrix(d_x), add, run.context,
                      run.scratch.rest());
}

}  // namespace rapt::nn

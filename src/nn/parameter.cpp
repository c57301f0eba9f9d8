#include "rapt/nn/parameter.h"

#include <cstring>

namespace rapt::nn {
namespace {

void clear(Tensor& tensor) noexcept {
  const TensorView view = tensor.view();
  int64_t count = 1;
  for (const int64_t n : view.dims()) count *= n;
  if (count > 0) std::memset(view.data, 0, static_cast<size_t>(count * size_of(view.dtype)));
}

}  // namespace

Parameter make_parameter(DType dtype, std::initializer_list<int64_t> shape, const Init& init) {
  Parameter p{.value = Tensor(dtype, shape),
              .gradient = Tensor(dtype == DType::f64 ? DType::f64 : DType::f32, shape),
              .init = init};
  clear(p.value);
  clear(p.gradient);
  return p;
}

void clear_gradients(std::span<Parameter* const> parameters) noexcept {
  for (Parameter* p : parameters)
    if (p->learns()) clear(p->gradient);
}

}  // namespace rapt::nn

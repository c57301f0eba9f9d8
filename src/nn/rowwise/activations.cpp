#include "rapt/nn/activations.h"

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/row_tasks.h"

namespace rapt::nn {
namespace {

// Operations that an element of an activation takes, about.
constexpr double kActivationWork = 30;

void check_activation(Activation activation) {
  if (activation > Activation::silu)
    throw Error(ErrorCode::argument,
                "activation " + std::to_string(static_cast<int>(activation)) + " is unknown");
}

}  // namespace

void activate(Activation activation, const TensorView& z, const TensorView& y, const Run& run) {
  if (run.counts()) return;
  check_activation(activation);
  check_input("z", z, z.dims(), z.dtype);
  check_output("y", y, z.dims(), z.dtype);
  check_same_or_apart("y", y, "z", z);
  in_computed_type("z", z.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().activate[static_cast<int>(z.dtype)];
    const int64_t size = size_of(z.dtype);
    const auto at = [&](const TensorView& v, int64_t i) {
      return static_cast<std::byte*>(v.data) + i * size;
    };
    for_ranges(run.context, z.count(), kActivationWork * static_cast<double>(z.count()),
               [&](int64_t begin, int64_t end) {
                 function(activation, at(z, begin), end - begin, at(y, begin));
               });
  });
}

void activation_gradient(Activation activation, const TensorView& z, const TensorView& d_y,
                         const TensorView& d_z, const Run& run) {
  if (run.counts()) return;
  check_activation(activation);
  check_input("z", z, z.dims(), z.dtype);
  check_input("d_y", d_y, z.dims(), z.dtype);
  check_output("d_z", d_z, z.dims(), z.dtype);
  check_same_or_apart("d_z", d_z, "z", z);
  check_same_or_apart("d_z", d_z, "d_y", d_y);
  in_computed_type("z", z.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().activation_gradient[static_cast<int>(z.dtype)];
    const int64_t size = size_of(z.dtype);
    const auto at = [&](const TensorView& v, int64_t i) {
      return static_cast<std::byte*>(v.data) + i * size;
    };
    for_ranges(run.context, z.count(), kActivationWork * static_cast<double>(z.count()),
               [&](int64_t begin, int64_t end) {
                 function(activation, at(z, begin), at(d_y, begin), end - begin, at(d_z, begin));
               });
  });
}

}  // namespace rapt::nn

#pragma once
// The tables of one instruction set: what layer_kernels.h declares, filled in.
#include "nn/kernels/activation_rows.simd.h"
#include "nn/kernels/adam.simd.h"
#include "nn/kernels/cross_entropy_rows.simd.h"
#include "nn/kernels/depthwise.simd.h"
#include "nn/kernels/glu.simd.h"
#include "nn/kernels/gradient_norm.simd.h"
#include "nn/kernels/gru_gates.simd.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/kernels/loss_rows.simd.h"
#include "nn/kernels/norm_rows.simd.h"
#include "nn/kernels/shared_rows.simd.h"
#include "nn/kernels/sum_rows.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// The functions of one storage type.
template <class V, class S, class E = typename V::Element>
constexpr void fill_storage(nn::LayerKernels<E>& t) {
  constexpr int i = static_cast<int>(S::kDType);
  t.activate[i] = activate_rows<V, S>;
  t.activation_gradient[i] = activation_gradient_rows<V, S>;
  t.adam[i] = adam_rows<V, S>;
  t.store_sums[i] = store_sums_as<V, S>;
  t.norms.layer_norm[i] = norm<V, S, true>;
  t.norms.layer_norm_gradient[i] = norm_gradient<V, S, true>;
  t.norms.rms_norm[i] = norm<V, S, false>;
  t.norms.rms_norm_gradient[i] = norm_gradient<V, S, false>;
  t.rows.add[i] = add_row<V, S>;
  t.rows.add_scaled[i] = add_scaled_row<V, S>;
  t.rows.add_chosen[i] = add_chosen_rows<V, S>;
  t.rows.gated[i] = gated_rows<V, S>;
  t.rows.gated_gradient[i] = gated_gradient_rows<V, S>;
  t.rows.drop[i] = drop_rows<V, S>;
  t.losses.cross_entropy[i] = cross_entropy<V, S>;
  t.losses.cross_entropy_gradient[i] = cross_entropy_gradient<V, S>;
  t.losses.target_dots[i] = target_dots<V, S>;
  t.losses.squared_error[i] = squared_error<V, S>;
  t.losses.squared_error_gradient[i] = squared_error_gradient<V, S>;
  t.sequences.glu[i] = glu_rows<V, S>;
  t.sequences.glu_gradient[i] = glu_gradient_rows<V, S>;
  t.sequences.pack_strip[i] = pack_strip<V, S>;
  t.sequences.gru_step[i] = gru_step<V, S>;
  t.sequences.gru_step_gradient[i] = gru_step_gradient<V, S>;
}

template <class V, class E = typename V::Element>
constexpr nn::LayerKernels<E> make_layer_kernels() {
  nn::LayerKernels<E> t = {};
  t.sum_of_squares = sum_of_squares<E>;
  t.scale = scale_array<V>;
  t.sequences.add_windows = add_windows<V>;
  fill_storage<V, AsElement<V>>(t);
  if constexpr (sizeof(E) == sizeof(float)) {
    fill_storage<V, AsBFloat16<V>>(t);
    fill_storage<V, AsFloat16<V>>(t);
  }
  return t;
}

constexpr nn::LayerKernels<float> kLayerKernelsF32 = make_layer_kernels<F>();
constexpr nn::LayerKernels<double> kLayerKernelsF64 = make_layer_kernels<D>();

}  // namespace

nn::LayerTables layer_tables() noexcept { return {&kLayerKernelsF32, &kLayerKernelsF64}; }

}  // namespace rapt::RAPT_ISA

#pragma once
// The tables of one instruction set: what layer_kernels.h declares, filled in.
#include "nn/kernels/activation_rows.simd.h"
#include "nn/kernels/adam.simd.h"
#include "nn/kernels/depthwise.simd.h"
#include "nn/kernels/glu.simd.h"
#include "nn/kernels/gradient_norm.simd.h"
#include "nn/kernels/gru_gates.simd.h"
#include "nn/kernels/layer_kernels.h"
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

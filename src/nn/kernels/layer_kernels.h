#pragma once
// The arithmetic of layers that is done row by row, per instruction set: tables of functions, as
// kernels/kernel_table.h has them for attention. Into this room come dense rows; out of it go
// changed rows and sums. It may use the words of kernels/simd and the vector kernels of the core.
//
// E is the type of the computation, float or double; void pointers are elements of the storage type
// that indexes the function (kernels/kernel_table.h: kStorageTypes). Lanes are features, unless a
// function says otherwise. Kernels check nothing and are noexcept.
#include <cstdint>

#include "kernels/kernel_table.h"
#include "nn/kernels/loss_kernels.h"
#include "nn/kernels/norm_kernels.h"
#include "nn/kernels/row_kernels.h"
#include "rapt/activation.h"

namespace rapt::nn {

template <class E>
struct LayerKernels {
  // y = activation(z), and d_z = d_y activation'(z); each output may be an input.
  void (*activate[kStorageTypes])(Activation activation, const void* z, int64_t count,
                                  void* y) noexcept;
  void (*activation_gradient[kStorageTypes])(Activation activation, const void* z, const void* d_y,
                                             int64_t count, void* d_z) noexcept;
  NormKernels<E> norms;
  RowKernels<E> rows;
  LossKernels<E> losses;
};

struct LayerTables {
  const LayerKernels<float>* f32;
  const LayerKernels<double>* f64;
};

// The table of the instruction set that kernels<E>() has chosen; sets with tile registers use the
// vectors of avx512. Throws as kernels<E>() does.
template <class E>
const LayerKernels<E>& layer_kernels();
template <>
const LayerKernels<float>& layer_kernels<float>();
template <>
const LayerKernels<double>& layer_kernels<double>();

}  // namespace rapt::nn

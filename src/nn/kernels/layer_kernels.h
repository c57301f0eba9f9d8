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
#include "nn/kernels/sequence_kernels.h"
#include "rapt/activation.h"

namespace rapt::nn {

// One update of Adam: constants that its options, the learning rate and the number of updates so
// far decide (rapt/nn/adam.h).
struct AdamStep {
  double keep;   // 1 - rate weight_decay where weight decay is decoupled, else 1
  double decay;  // of the gradient; 0: none
  double beta1, beta2;
  double root_factor;  // 1 / sqrt(1 - beta2^t)
  double eps;
  double step_size;  // rate / (1 - beta1^t)
};

template <class E>
struct LayerKernels {
  // y = activation(z), and d_z = d_y activation'(z); each output may be an input.
  void (*activate[kStorageTypes])(Activation activation, const void* z, int64_t count,
                                  void* y) noexcept;
  void (*activation_gradient[kStorageTypes])(Activation activation, const void* z, const void* d_y,
                                             int64_t count, void* d_z) noexcept;

  // An update of `value` and of the averages of its gradient and of the squares. `master` is the
  // copy of a value in 16 bits.
  void (*adam[kStorageTypes])(const AdamStep& step, const E* gradient, int64_t count, void* value,
                              E* master, E* first, E* second) noexcept;
  // The sum of x^2 in f64, and x = factor x.
  double (*sum_of_squares)(const E* x, int64_t count) noexcept;
  void (*scale)(E* x, int64_t count, double factor) noexcept;
  // to = sums, or to + sums.
  void (*store_sums[kStorageTypes])(const E* sums, int64_t count, bool add, void* to) noexcept;
  NormKernels<E> norms;
  RowKernels<E> rows;
  LossKernels<E> losses;

  SequenceKernels<E> sequences;
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

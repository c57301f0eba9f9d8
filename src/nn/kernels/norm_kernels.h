#pragma once
// The arithmetic of LayerNorm and RmsNorm (rapt/nn/layer_norm.h, rms_norm.h): a part of
// layer_kernels.h. Rows are dense, one after the other.
#include <cstdint>

#include "kernels/kernel_table.h"

namespace rapt::nn {

template <class E>
struct NormRows {
  const void* x;       // [rows, features]
  const void* weight;  // [features]; null: 1
  const void* bias;    // [features]; null: 0
  void* y;             // may be x
  E* mean;             // [rows]; not of RmsNorm
  E* rstd;             // [rows]
  int64_t rows, features;
  E epsilon;
};

template <class E>
struct NormGradientRows {
  const void* x;
  const void* d_y;
  const void* weight;  // null: 1
  const E* mean;
  const E* rstd;
  void* d_x;      // null: not computed; may be x or d_y
  bool add;       // to what d_x holds?
  E* parameters;  // += [features] of the weight, then, of LayerNorm, of the bias; null: frozen
  int64_t rows, features;
};

// By the DType of x.
template <class E>
struct NormKernels {
  void (*layer_norm[kStorageTypes])(const NormRows<E>& rows) noexcept;
  void (*layer_norm_gradient[kStorageTypes])(const NormGradientRows<E>& rows) noexcept;
  void (*rms_norm[kStorageTypes])(const NormRows<E>& rows) noexcept;
  void (*rms_norm_gradient[kStorageTypes])(const NormGradientRows<E>& rows) noexcept;
};

}  // namespace rapt::nn

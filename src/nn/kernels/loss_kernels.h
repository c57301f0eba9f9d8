#pragma once
// The arithmetic of losses (rapt/nn/cross_entropy.h, mse.h): a part of layer_kernels.h. By the
// DType of the void pointers.
#include <cstdint>

#include "kernels/kernel_table.h"

namespace rapt::nn {

struct CrossEntropyRows {
  const void* logits;      // [rows, classes]
  const int64_t* targets;  // [rows]
  int64_t rows, classes, ignore_index;
  double smoothing;
  double* lse;   // [rows]
  double* loss;  // [rows]; 0 for ignored rows
};

template <class E>
struct CrossEntropyGradientRows {
  const void* logits;
  const int64_t* targets;
  const double* lse;
  int64_t rows, classes, ignore_index;
  E factor;        // d_loss, for the mean over its rows
  E of_target;     // factor times the share of the target, without that of all classes
  E of_classes;    // factor times the share of each class
  void* d_logits;  // may be logits
};

template <class E>
struct LossKernels {
  void (*cross_entropy[kStorageTypes])(const CrossEntropyRows& rows) noexcept;
  void (*cross_entropy_gradient[kStorageTypes])(const CrossEntropyGradientRows<E>& rows) noexcept;
  // dots [rows] = x [rows, features] . weight[target, features]; 0 for ignored rows.
  void (*target_dots[kStorageTypes])(const void* x, const void* weight, const int64_t* targets,
                                     int64_t rows, int64_t features, int64_t ignore_index,
                                     E* dots) noexcept;
  // The sum of (x - target)^2.
  double (*squared_error[kStorageTypes])(const void* x, const void* target, int64_t count) noexcept;
  // d_x = factor (x - target); d_x may be either.
  void (*squared_error_gradient[kStorageTypes])(const void* x, const void* target, int64_t count,
                                                E factor, void* d_x) noexcept;
};

}  // namespace rapt::nn

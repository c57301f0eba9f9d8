#pragma once
// Arithmetic on rows that several layers share, and that of embeddings, gated activations and
// dropout: a part of layer_kernels.h. By the DType of the void pointers.
#include <cstdint>

#include "kernels/kernel_table.h"
#include "rapt/activation.h"

namespace rapt::nn {

template <class E>
struct RowKernels {
  // y [count] += x [count].
  void (*add[kStorageTypes])(const void* x, int64_t count, void* y) noexcept;
  // sums [count] += factor x [count].
  void (*add_scaled[kStorageTypes])(const void* x, int64_t count, E factor, E* sums) noexcept;
  // sums [features] += factor times the sum of the chosen rows, made in blocks of 256.
  void (*add_chosen[kStorageTypes])(const void* rows /* [.., features] */, const int64_t* chosen,
                                    int64_t count, int64_t features, E factor, E* sums) noexcept;
  // y = activation(gate) up; y may be gate or up.
  void (*gated[kStorageTypes])(Activation activation, const void* gate, const void* up,
                               int64_t count, void* y) noexcept;
  // d_gate may be gate, d_up may be up.
  void (*gated_gradient[kStorageTypes])(Activation activation, const void* gate, const void* up,
                                        const void* d_y, int64_t count, void* d_gate,
                                        void* d_up) noexcept;
  // y = x factor where bit i of bits[row] is set, x 0 elsewhere, for up to 64 columns i; y + that
  // if `add`. y may be x.
  void (*drop[kStorageTypes])(const void* x, int64_t stride, const uint64_t* bits, int64_t rows,
                              int64_t columns, E factor, bool add, void* y) noexcept;
};

}  // namespace rapt::nn

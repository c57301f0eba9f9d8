#pragma once
// The arithmetic of convolutions, gated recurrent units and gated linear units, a part of the
// tables of layer_kernels.h.
#include "kernels/kernel_table.h"

namespace rapt::nn {

// Channels of a strip: the rows of its scratch are so long, padded with zeros.
inline constexpr int64_t kDepthwiseChannels = 32;

// Sums over windows of a strip (depthwise.simd.h):
//   out[i] = bias + sum over t of factors[t] window[i out_step + t term_step],  channel by channel
template <class E>
struct WindowSums {
  const E* window;   // [rows, kDepthwiseChannels]
  const E* factors;  // [terms, kDepthwiseChannels]
  const E* bias;     // [kDepthwiseChannels]; null: 0
  int64_t outs, terms;
  int64_t out_step, term_step;  // in rows of the window
  int64_t channels;             // that exist
  bool add;                     // add to what `out` holds?
  E* out;                       // [outs, channels]
  int64_t out_stride;
};

// A step of a gated recurrent unit for `rows` sequences (gru_gates.simd.h). The gates of a sequence
// are r, z, n, W_hn h + b_hn and the h before the step; the first three are W_i x + b_i before it.
template <class E>
struct GruStep {
  int64_t rows, hidden;
  E* gates;  // [rows, 5 hidden]
  int64_t gates_stride;
  const E* recurrent;  // [rows, 3 hidden], dense: W_h h + b_h
  E* h;                // [rows, hidden], dense: before the step, and after it
  void* y;             // [rows, hidden]: after it
  int64_t y_stride;
};

// Its gradients. The product of d_recurrent and W_h remains to be added to d_h.
template <class E>
struct GruStepGradient {
  int64_t rows, hidden;
  const E* gates;  // [rows, 5 hidden]
  int64_t gates_stride;
  const void* d_y;  // [rows, hidden]
  int64_t d_y_stride;
  E* d_h;      // [rows, hidden], dense: of h after the step without d_y, and of h before it
  E* d_gates;  // [rows, 4 hidden]: of what r, z and n are functions of, and of W_hn h + b_hn
  int64_t d_gates_stride;
  E* d_recurrent;  // [rows, 3 hidden], dense: of W_h h + b_h
};

template <class E>
struct SequenceKernels {
  // y [rows, features] = a sigma(b) of x [rows, 2 features] = (a, b), and the gradient, which may
  // be x. All dense.
  void (*glu[kStorageTypes])(const void* x, int64_t rows, int64_t features, void* y) noexcept;
  void (*glu_gradient[kStorageTypes])(const void* x, const void* d_y, int64_t rows,
                                      int64_t features, void* d_x) noexcept;

  // strip [count][kDepthwiseChannels] from rows of any strides, 0 beyond the `channels` that exist.
  void (*pack_strip[kStorageTypes])(const void* rows, int64_t row_step, int64_t channel_step,
                                    int64_t count, int64_t channels, E* strip) noexcept;
  void (*add_windows)(const WindowSums<E>& sums) noexcept;
  // By the DType of y and of d_y.
  void (*gru_step[kStorageTypes])(const GruStep<E>& step) noexcept;
  void (*gru_step_gradient[kStorageTypes])(const GruStepGradient<E>& step) noexcept;
};

}  // namespace rapt::nn

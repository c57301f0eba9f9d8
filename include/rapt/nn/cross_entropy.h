#pragma once
// Softmax cross-entropy, PyTorch's F.cross_entropy with class indices. With C classes, smoothing s
// and the target t of a row of logits z:
//
//   lse = log(sum(exp(z)))
//   loss = lse - (1 - s) z[t] - s sum(z) / C
//   d_z = f (exp(z - lse) - (1 - s) [c = t] - s / C),  f = d_loss, for the mean over its rows
//
//   logits, d_logits [..., classes], dense, f32, f64, bf16 or f16; targets [...] i64, dense
//
// Rows whose target is ignore_index have loss 0 and gradient 0, and do not count in the mean. The
// mean of no rows is NaN, as in PyTorch, and its gradient 0. Any other target outside [0, classes)
// is an Error(argument) that names its position; nothing is written.
#include <cstdint>

#include "rapt/nn/run.h"

namespace rapt::nn {

// How losses of rows become one number.
enum class Reduction : uint8_t { mean, sum };

// What differs from the default.
struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0;  // s, in [0, 1]
  Reduction reduction = Reduction::mean;
};

// Returns the loss; 0 if the call only counts. `lse` [...] f64 is an output that the gradient
// needs. Losses of rows are added in f64.
double cross_entropy(const TensorView& logits, const TensorView& targets, const TensorView& lse,
                     const Run& run, const CrossEntropyOptions& options = {});

// d_logits may be logits.
void cross_entropy_gradient(const TensorView& logits, const TensorView& targets,
                            const TensorView& lse, const TensorView& d_logits, const Run& run,
                            const CrossEntropyOptions& options = {}, double d_loss = 1);

}  // namespace rapt::nn

#pragma once
// What the two forms of cross-entropy share: targets, options, and the loss of all rows.
#include "rapt/nn/cross_entropy.h"

namespace rapt::nn {

// Checks the targets of rows, and the options. Throws Error(shape, dtype, argument).
void check_targets(const TensorView& targets, Shape rows, int64_t classes,
                   const CrossEntropyOptions& options);

// What each row's loss is multiplied by: 1 over the number of targets that are not ignored, or 1.
// Infinite where a mean has no rows.
double loss_factor(const TensorView& targets, const CrossEntropyOptions& options);

// The sum of f64 losses of rows, in a fixed order, times that factor.
double reduce_losses(const TensorView& losses, const TensorView& targets,
                     const CrossEntropyOptions& options);

}  // namespace rapt::nn

#pragma once
// The cross-entropy (cross_entropy.h) of the logits x weight^T without the logits, for large
// vocabularies: O(rows + classes) memory instead of rows x classes.
//
//   x, d_x [..., features], dense; weight [classes, features]; targets [...] i64, dense
//
// The lse of a row is that of attention with the query x, the key `weight`, values of size 0 and
// scale 1; the logits of targets are products of their own. The gradient is that of attention's
// lse, in blocks of 2,048 classes, and that of these products. See Wijmans et al. 2024,
// arXiv:2411.09009, for the same loss on GPUs. The gradient computes the logits once more, which
// makes a third more products than storing them.
//
// A loss has the error of the logits: a few roundings of the largest products.
#include "rapt/nn/cross_entropy.h"
#include "rapt/nn/parameter.h"

namespace rapt::nn {

// Returns the loss; 0 if the call only counts. `lse` [...], f64 for f64, else f32, is an output
// that the gradient needs.
double linear_cross_entropy(const TensorView& x, const Parameter& weight, const TensorView& targets,
                            const TensorView& lse, const Run& run,
                            const CrossEntropyOptions& options = {});

// Adds to the gradient of the weight, if it learns, and writes d_x, or adds to it if `add`.
void linear_cross_entropy_gradient(const TensorView& x, Parameter& weight,
                                   const TensorView& targets, const TensorView& lse,
                                   const TensorView& d_x, const Run& run,
                                   const CrossEntropyOptions& options = {}, double d_loss = 1,
                                   bool add = false);

}  // namespace rapt::nn

#pragma once
// Multiples of a tensor, for branches that count by a factor.
#include "rapt/nn/run.h"

namespace rapt::nn {

// y = x factor, or y + that if `add`. Both are dense, of one dtype and shape, and checked by the
// caller. y may be x.
void scale_dense(const TensorView& x, double factor, const TensorView& y, const Run& run,
                 bool add = false);

}  // namespace rapt::nn

#pragma once
// Stores sums of the computed type in a tensor of any floating-point type.
#include "rapt/context.h"
#include "rapt/tensor.h"

namespace rapt::nn {

// to [...] = sums [...], or to + sums if `add`. Both dense, of one shape; `sums` f64 for f64, else
// f32. Checks nothing.
void store_sums(const TensorView& sums, const TensorView& to, bool add, const Context& context);

}  // namespace rapt::nn

#pragma once
// The library's gradients on a case, compared with the reference.
#include "check/compare/comparison.h"
#include "check/compare/gradient_case.h"
#include "rapt/backward.h"

namespace check {

// Runs forward and backward pass with laid-out inputs.
rapt::Gradients run_backward(const GradientCase& g, const rapt::Context& context = {});

// Compares d_query, d_key, d_value, d_bias, d_scale and d_score_parameters, as far as they exist.
Comparison compare(const GradientCase& g, const rapt::Gradients& got);

}  // namespace check

#pragma once
// The library's gradients on a case, compared with the reference.
#include "check/compare/comparison.h"
#include "check/compare/gradient_case.h"
#include "rapt/backward.h"

namespace check {

// Forward and backward pass, inputs as laid out.
rapt::Gradients run_backward(const GradientCase& g, const rapt::Context& context = {});

// d_query, d_key, d_value, d_bias, d_scale and d_score_parameters, those that there are.
Comparison compare(const GradientCase& g, const rapt::Gradients& got);

}  // namespace check

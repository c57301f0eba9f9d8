#pragma once
// The tolerance of attention by a feature map, as that of other results (tolerance.h):
//
//   error(rapt) <= 2 error(plain loop in the same dtype) + floor      as maximum and as rms
//
// The floor is the running error of the same loops over tokens (rounded.h). Elements that read the
// quotient by a sum of weights that may be 0 within its error may be anything.
#include "check/tolerance/gradient_tolerance.h"

namespace check {

// Of problems with features; all rows, whatever the sample.
Expectations feature_expectations(const Problem& problem);
GradientExpectations feature_gradient_expectations(const Problem& problem,
                                                   const Incoming& incoming);

// The sums over the keys that the last query of each head attends to, [..., features][value_dim +
// 1]: of features times values, and of features.
Expectation feature_state_expectation(const Problem& problem);

}  // namespace check

#pragma once
// Checks of the states that methods of feature maps read and write.
#include "method/linear/linear_call.h"

namespace rapt {

// Throws Error(shape, dtype) unless a state is absent or of the shape that the call needs.
void check_state(const char* name, const TensorView& state, const MethodCall& call,
                 int64_t features);
// Throws Error(unsupported) for a call with gradients that has a state.
void check_no_state(const TensorView& initial_state, const TensorView& final_state);

// Throws Error(argument) for a finite power in an initial state, other than 0 and that of no keys:
// the state of another map. Reads the state.
void check_no_power(const TensorView& initial_state);

}  // namespace rapt

#pragma once
// The passes of a call by feature maps, for the methods that declare them.
#include "method/linear/linear_call.h"

namespace rapt {

// What the passes need. Throw Error(overflow).
MethodPlan plan_linear(const MethodCall& call, const LinearModel& model);
MethodPlan plan_linear_backward(const MethodCall& call, const LinearModel& model,
                                const WantedGradients& wanted);

// Throw Error(cancelled).
void run_linear(const MethodCall& call, const LinearModel& model, const MethodResults& results,
                std::byte* scratch);
void run_linear_backward(const MethodCall& call, const LinearModel& model,
                         const MethodGradients& gradients, std::byte* scratch);

}  // namespace rapt

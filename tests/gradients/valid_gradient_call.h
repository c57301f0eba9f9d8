#pragma once
// A valid call of the backward pass with the caller's memory, which a test of bad input spoils.
#include "gradients/gradient_problems.h"
#include "hostile/valid_inputs.h"

namespace laws {

struct ValidGradientCall : ValidInputs {
  Tensor d = filled(DType::f32, {2, 4, 5, 3}, 1);
  AttentionResult forward;
  BackwardInputs inputs;
  BackwardRequest request;
  rapt::Gradients memory;  // of 77s
  GradientOutputs outputs;

  // With options as they are now: the forward pass, and memory for the gradients of every call.
  void attend() {
    forward = scaled_dot_product_attention(query, key, value, options);
    inputs.state = forward.state();
    inputs.d_output = d;
    memory.d_query = filled(DType::f32, {2, 4, 5, 8}, 77);
    memory.d_key = filled(DType::f32, {2, 2, 7, 8}, 77);
    memory.d_value = filled(DType::f32, {2, 2, 7, 3}, 77);
  }
  void run() {
    scaled_dot_product_attention_backward(query, key, value, options, inputs, request, outputs,
                                          workspace, context);
  }
  bool untouched() const {
    for (const auto& [name, tensor, output] : kGradientTensors)
      if ((memory.*tensor).defined())
        for (const double x : values_of(memory.*tensor))
          if (x != 77) return false;
    return workspace_untouched();
  }
};

}  // namespace laws

#pragma once
// An interpreter of small ONNX graphs: the score_mod and prob_mod of FlexAttention.
//
// Operators, of opset 14 on: Add, Sub, Mul, Div, Tanh, Where, GreaterOrEqual, Cast, Shape, Gather
// along axis 0, Range, Reshape. dtypes: f32, f64, i64 and bool. Every element is computed in f64
// and rounded to the dtype of its tensor, which gives sums, products and quotients of f32 and
// integers below 2^53 the bits of their own arithmetic. A tensor has at most 2^24 elements.
#include "onnx_messages.h"

namespace rapt::conformance {

// Computes the output of a graph that has one input and one output. Throws Error(unsupported) for
// an operator, an attribute or a dtype that is not listed above and for a larger tensor,
// Error(format) for a graph that is not well-formed, Error(shape) for shapes that do not fit, and
// Error(overflow) for an integer of 2^53 or more.
Tensor run_graph(const Graph& graph, const TensorView& input);

}  // namespace rapt::conformance

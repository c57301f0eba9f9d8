#pragma once
// A case with gradients of its results: the arguments for the backward pass and its reference.
#include "check/compare/case.h"
#include "check/compare/comparison.h"
#include "check/reference/backward_reference.h"
#include "rapt/backward.h"

namespace check {

// The gradients are drawn from the case's seed. With a sample they are 0 outside of its rows, so
// that the reference can ignore other rows, and all gradients can be compared.
class GradientCase {
 public:
  explicit GradientCase(const Case& c, const Sample& sample = {});
  GradientCase(const GradientCase&) = delete;
  GradientCase& operator=(const GradientCase&) = delete;

  const Case& c;
  const Sample sample;
  Tensor d_output;   // [..., q_len, value_dim], the output's dtype
  Tensor d_lse;      // [..., q_len], if the descriptor says so
  Tensor d_weights;  // as the weights, if they are wanted

  // The inputs in the layout of the descriptor; d_output has the layout of the query.
  rapt::BackwardInputs inputs(const rapt::AttentionState& state) const;
  // Requests all gradients that exist.
  rapt::BackwardRequest request() const;
  Incoming for_reference() const;

 private:
  Strided strided_d_output_;
};

// The rows of a large problem whose gradients are compared: fewer than in the forward pass, because
// each takes about eight times the work.
Sample gradient_sample_of(const Descriptor& descriptor);

}  // namespace check

#pragma once
// A case with gradients of its results: what the backward pass and its reference are called with.
#include "check/compare/case.h"
#include "check/compare/comparison.h"
#include "check/reference/backward_reference.h"
#include "rapt/backward.h"

namespace check {

// The gradients are drawn from the case's seed. With a sample they are 0 outside of its rows, so
// that the reference need not look at any other, and all gradients can be compared.
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

  // As laid out by the descriptor: d_output as the query is.
  rapt::BackwardInputs inputs(const rapt::AttentionState& state) const;
  // All gradients that there are.
  rapt::BackwardRequest request() const;
  Incoming for_reference() const;

 private:
  Strided strided_d_output_;
};

// The rows whose gradients are compared of a large problem: fewer than of the forward pass, as each
// takes some eight times the work, and so few that they take less than all others.
Sample gradient_sample_of(const Descriptor& descriptor);

}  // namespace check

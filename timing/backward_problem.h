#pragma once
// A problem of one line (check/problem/descriptor.h) with drawn inputs, its forward state, a
// gradient of its output, and all memory for calls of the backward pass: ready for repeated calls.
#include <cstddef>
#include <vector>

#include "check/compare/case.h"
#include "rapt/backward.h"
#include "timing/problem.h"

namespace timing {

// Requests the gradients of query, key and value, and of the bias if there is one. `observer` sees
// the first call of the backward pass, which allocates its gradients.
class BackwardProblem {
 public:
  explicit BackwardProblem(const check::Descriptor& descriptor,
                           rapt::BackwardPasses passes = rapt::BackwardPasses::one,
                           const rapt::Context& context = one_thread(),
                           const rapt::Rotary* rotary = nullptr, const Observer& observer = {});
  BackwardProblem(const BackwardProblem&) = delete;
  BackwardProblem& operator=(const BackwardProblem&) = delete;

  // Runs the backward pass only.
  void call(const rapt::Progress& progress = {});

  // As call(), with the threads of this executor: at most as many as the context of the constructor
  // allows.
  void call_on(rapt::Executor& executor);

  const check::Descriptor& descriptor() const { return case_.descriptor; }
  const rapt::Plan& plan() const { return plan_; }  // of the forward pass
  // 6 head_dim + 4 value_dim per allowed score: the products of scores, d_weights, d_value, d_query
  // and d_key.
  double useful_flops() const;

 private:
  void call(const rapt::Context& context);

  const rapt::Context context_;
  const check::Case case_;
  const check::Case::Inputs inputs_;
  const rapt::AttentionOptions options_;
  const rapt::BackwardRequest request_;
  rapt::Plan plan_;
  rapt::AttentionResult forward_;
  rapt::Tensor d_output_;
  rapt::BackwardInputs backward_inputs_;
  rapt::Gradients gradients_;
  rapt::GradientOutputs outputs_;
  std::vector<std::byte> workspace_;
};

}  // namespace timing

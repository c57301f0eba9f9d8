#pragma once
// The conductor of a backward call: cells of segments and chunks over heads, run by the executor.
#include "attention/backward/backward_layout.h"
#include "attention/plan/forward_call.h"

namespace rapt {

template <class E>
struct BackwardCall {
  const ForwardCall<E>& forward;  // the call whose scores are computed again
  const AttentionOptions& options;
  const WantedGradients& wanted;
  const BackwardPlan& plan;
  const BackwardLayout& layout;
  const GradientInputs& inputs;
  const GradientTargets& targets;

  const Problem& problem() const noexcept { return forward.problem; }
  template <class T>
  T* at(size_t offset) const noexcept {
    return reinterpret_cast<T*>(forward.workspace + offset);
  }
  // Where the cells of a sequence begin, counted within a head.
  int64_t first_cell(int64_t sequence) const noexcept {
    return problem().query_starts ? at<const int64_t>(layout.cell_starts)[sequence] : 0;
  }
};

// Throws Error(cancelled).
template <class E>
void run_backward(const BackwardCall<E>& call, const Context& context);

}  // namespace rapt

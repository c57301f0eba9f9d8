#pragma once
// Runs a backward call: head by head, cells of a segment and a chunk, as tasks of the executor.
//
// This room, src/attention/backward, computes gradients. In: a ForwardCall for the scores, which
// are recomputed; the forward state and the output gradient; the plan and the layout of this room.
// Out: gradients of query, key and value, and on request of bias, scale, learned parameters and
// relative positions. It may use call, plan, rows, relative, tiles, the kernel tables and src/base.
// It does not include src/attention/forward.
#include "attention/backward/backward_plan.h"
#include "attention/plan/forward_call.h"

namespace rapt {

template <class E>
struct BackwardLayout;  // backward_layout.h

template <class E>
struct BackwardCall {
  const ForwardCall<E>& forward;  // the call whose scores are recomputed
  const AttentionOptions& options;
  const WantedGradients& wanted;
  const BackwardPlan& plan;
  const BackwardLayout<E>& layout;
  const GradientInputs& inputs;
  const GradientTargets& targets;

  const Problem& problem() const noexcept { return forward.problem; }
  // An array of the call, from a row on.
  template <class T>
  T* at(const CallPlace<T>& place, int64_t row = 0) const noexcept {
    return place.in(forward.workspace, row);
  }
  // The first cell of a sequence, counted within a head.
  int64_t first_cell(int64_t sequence) const noexcept {
    return problem().query_starts ? at(layout.cell_starts)[sequence] : 0;
  }
};

// Runs the backward pass. Throws Error(cancelled).
template <class E>
void run_backward(const BackwardCall<E>& call, const Context& context);

}  // namespace rapt

#pragma once
// Runs a forward call: work units of queries, head by head, as tasks of the executor. It is
// compiled once; all arithmetic is behind the kernel table.
//
// This room, src/attention/forward, computes what a forward call returns. In: a ForwardCall, whose
// workspace is laid out. Out: output, statistic, entropy and top keys (forward.cpp); returned
// weights, pooled map and received attention, each by a second pass over the scores, or of few
// queries by the main pass (kept_scores.h). It may use call, plan, rows, relative, tiles and the
// kernel tables. It does not include backward.
#include "attention/plan/forward_call.h"

namespace rapt {

template <class E>
struct ForwardLayout;  // forward_layout.h

// Runs the forward pass, then the second passes over the scores. Throws Error(cancelled).
template <class E>
void run_forward(const ForwardCall<E>& call, const ForwardLayout<E>& layout,
                 const Context& context);

// The inputs of the tasks of a pass.
template <class E>
struct PassInput {
  const ForwardCall<E>& call;
  const ForwardLayout<E>& layout;
  const CancelToken* cancel;
};

// A pass of `tasks` independent tasks.
template <class E>
struct Pass {
  int64_t tasks = 0;
  void (*run)(const PassInput<E>& in, int64_t task, int worker) noexcept = nullptr;
};

// The second passes. A pass that the call does not ask for has 0 tasks.
template <class E>
Pass<E> weights_pass(const PassInput<E>& in);
template <class E>
Pass<E> map_pass(const PassInput<E>& in);
template <class E>
Pass<E> received_pass(const PassInput<E>& in);

}  // namespace rapt

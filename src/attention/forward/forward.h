#pragma once
// The conductor of a call: units of work over heads and queries, run by the executor. It is
// compiled once; all arithmetic is behind the kernel table.
#include "attention/plan/forward_call.h"

namespace rapt {

// Runs the call: the forward pass, then what needs a second pass over the scores. Throws
// Error(cancelled).
template <class E>
void run_forward(const ForwardCall<E>& call, const Context& context);

// A pass: `tasks` independent pieces of work.
template <class E>
struct Pass {
  int64_t tasks = 0;
  void (*run)(const ForwardCall<E>& call, const CancelToken* cancel, int64_t task,
              int worker) noexcept = nullptr;
};

// The second passes, each if it is asked for (tasks 0: not).
template <class E>
Pass<E> weights_pass(const ForwardCall<E>& call);
template <class E>
Pass<E> map_pass(const ForwardCall<E>& call);
template <class E>
Pass<E> received_pass(const ForwardCall<E>& call);

}  // namespace rapt

#pragma once
// The row transform of a call's keys, a pass before all other passes.
#include "attention/plan/forward_call.h"
#include "attention/rows/row_transformer.h"

namespace rapt {

// The row transformer of a worker.
template <class E>
RowTransformer<E> row_transformer_of(const ForwardCall<E>& call,
                                     std::byte* worker_scratch) noexcept {
  return {call.kernels.table, call.problem.rows, call.problem.head_dim,
          call.workspace + call.layout.angles, worker_scratch + call.layout.row_transform};
}

// Fills in the angle tables and writes the transformed keys to the problem's `key`. Throws
// Error(cancelled).
template <class E>
void transform_keys(const ForwardCall<E>& call, const Context& context);

}  // namespace rapt

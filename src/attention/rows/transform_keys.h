#pragma once
// What happens to rows of queries and keys before they are multiplied (RowTransform, problem.h),
// within a call.
#include "attention/plan/forward_call.h"
#include "attention/rows/row_transformer.h"

namespace rapt {

// The changer of a worker.
template <class E>
RowTransformer<E> row_transformer_of(const ForwardCall<E>& call,
                                     std::byte* worker_scratch) noexcept {
  return {call.kernels.table, call.problem.rows, call.problem.head_dim,
          call.workspace + call.layout.angles, worker_scratch + call.layout.row_transform};
}

// Makes the tables of the change, and the changed keys: the problem's `key`. Throws
// Error(cancelled).
template <class E>
void transform_keys(const ForwardCall<E>& call, const Context& context);

}  // namespace rapt

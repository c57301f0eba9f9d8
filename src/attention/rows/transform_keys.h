#pragma once
// The row transform of a call's keys, a pass before all other passes.
#include "attention/plan/forward_call.h"
#include "attention/rows/row_transformer.h"

namespace rapt {

// Of a call with a row transform: fills in the angle tables and writes the transformed keys to the
// problem's `key`. Throws Error(cancelled).
template <class E>
void transform_keys(const ForwardCall<E>& call, const RowTransformPlaces<E>& places,
                    const RepeatedMemory& workers, const Context& context);

}  // namespace rapt

#pragma once
// Finds which key rows any query may attend to. Passes over whole key matrices (packing, the
// prefilter) skip the other rows, such as the unused end of a cache.
#include "attention/plan/forward_call.h"
#include "attention/plan/key_matrices.h"

namespace rapt {

// The smallest row range, in one sequence of a key matrix, that holds every key that some query may
// attend to. Rows count from the start of the sequence. `scratch` belongs to the calling worker.
template <class E>
KeyRange attended_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                       int64_t sequence, std::byte* scratch) noexcept;

// The same over all sequences; rows count from the start of the whole tensor.
template <class E>
KeyRange attended_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                       std::byte* scratch) noexcept;

}  // namespace rapt

#pragma once
// Which rows of the keys some query may attend to. Passes over whole matrices of keys (packing, the
// prefilter) leave out the others, such as the unused end of a cache.
#include "attention/plan/forward_call.h"
#include "attention/plan/key_matrices.h"

namespace rapt {

// From the first to the last row of a sequence of a matrix that some query may attend to, counted
// from the begin of the sequence. `scratch`: a worker's.
template <class E>
KeyRange attended_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                       int64_t sequence, std::byte* scratch) noexcept;

// The same over all sequences, in rows of the whole tensor.
template <class E>
KeyRange attended_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                       std::byte* scratch) noexcept;

}  // namespace rapt

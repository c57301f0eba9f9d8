#pragma once
// Finds which key rows any query may attend to. Passes over whole key matrices (packing, the
// prefilter) skip the other rows, such as the unused end of a cache.
#include "attention/plan/forward_call.h"
#include "attention/plan/key_matrices.h"

namespace rapt {

// The key blocks, in one sequence of a key matrix, that some query may attend to: bit n stands for
// the block `first` + n, for up to 64 blocks. `scratch` belongs to the calling worker.
template <class E>
uint64_t attended_blocks(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                         int64_t sequence, int64_t first, std::byte* scratch) noexcept;

// The smallest row range of a key matrix that holds every key that some query may attend to. Rows
// count from the start of the whole tensor.
template <class E>
KeyRange attended_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                       std::byte* scratch) noexcept;

}  // namespace rapt

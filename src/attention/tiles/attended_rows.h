#pragma once
// Finds which key rows any query may attend to. Passes over whole key matrices (packing, the
// prefilter) skip the other rows, such as the unused end of a cache.
#include "attention/plan/forward_call.h"
#include "attention/plan/key_matrices.h"

namespace rapt {

// Some key blocks of one sequence of a key matrix.
struct BlockSpan {
  int64_t sequence, first, count;  // at most 64
};

// The blocks of a span that some query may attend to: bit n stands for the block `first` + n.
// `scratch` belongs to the calling worker.
template <class E>
uint64_t attended_blocks(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                         const BlockSpan& blocks, std::byte* scratch) noexcept;

// The smallest row range of a key matrix that holds every key that some query may attend to. Rows
// count from the start of the whole tensor.
template <class E>
KeyRange attended_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                       std::byte* scratch) noexcept;

}  // namespace rapt

#pragma once
// The matrices of keys, or of values, that the heads of a call read: what is done once per matrix,
// before the first tile, is shared by all heads that read it.
#include "attention/forward.h"

namespace rapt {

// Each counted once.
struct KeyMatrices {
  int64_t count = 1;
  int64_t strides[kMaxRank];  // [leading rank], in matrices
  int64_t heads_per_group;

  KeyMatrices() = default;
  KeyMatrices(const Problem& p, const Operand& keys) noexcept;
  int64_t of(const int64_t* index, int rank) const noexcept;
  // The first head that reads a matrix.
  void first_head(const Problem& p, int64_t matrix, int64_t* index) const noexcept;
  // Turns from a head to the next that reads the same matrix; false: that was the last.
  bool next_head(const Problem& p, int64_t* index) const noexcept;
};

// Rows of a sequence of a matrix that some query may see, from the first to the last, counted from
// its own start. What nobody sees, such as the unused end of a cache, need not be read. `scratch`:
// a worker's.
template <class E>
KeyRange seen_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                   int64_t sequence, std::byte* scratch) noexcept;

// The same of all sequences, in the whole tensor.
template <class E>
KeyRange seen_rows(const ForwardCall<E>& call, const KeyMatrices& matrices, int64_t matrix,
                   std::byte* scratch) noexcept;

}  // namespace rapt

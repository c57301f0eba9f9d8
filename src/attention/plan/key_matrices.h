#pragma once
// The matrices of keys, or of values, that the heads of a call read: what is done once per matrix,
// before the first tile, is shared by all heads that read it.
#include "attention/call/problem.h"

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

}  // namespace rapt

#pragma once
// The distinct matrices of keys, or of values, that the heads of a call read. Passes over whole
// matrices (row transforms, packing, the prefilter) process each once for all heads that share it.
#include "attention/call/problem.h"

namespace rapt {

// Matrices are counted once, however many heads share them.
struct KeyMatrices {
  int64_t count = 1;
  int64_t strides[kMaxRank];  // [leading rank], in matrices
  int64_t heads_per_group;

  KeyMatrices() = default;
  KeyMatrices(const Problem& p, const Operand& keys) noexcept;
  int64_t of(const int64_t* index, int rank) const noexcept;
  // The first head that reads a matrix.
  void first_head(const Problem& p, int64_t matrix, int64_t* index) const noexcept;
  // Moves `index` to the next head that reads the same matrix. Returns false after the last one.
  bool next_head(const Problem& p, int64_t* index) const noexcept;
};

}  // namespace rapt

#pragma once
// A rotary embedding after validation: which dimensions turn together, how fast, and where the
// positions of rows lie.
#include <cstdint>

#include "attention/problem.h"
#include "kernels/kernel_table.h"
#include "rapt/rotary.h"

namespace rapt {

// How many pairs of dimensions of a row turn. Throws Error(argument, shape).
int64_t check_rotary(const Rotary& rotary, int64_t head_dim);

// Two dimensions, on which axis their position counts, and the angle of position 1.
struct RotaryPair {
  DimPair dims;
  int axis;
  double frequency;
};
RotaryPair pair_of(const Rotary& rotary, int64_t head_dim, int64_t i) noexcept;

// A tensor [batch ..., rows, own], seen from a row of a head.
struct PerRow {
  const void* data = nullptr;
  DType dtype = DType::i64;
  int rank = 0;                    // of the batch
  int64_t lead_strides[kMaxRank];  // [rank]; 0: the same for all
  int64_t row_stride = 0, own_stride = 0;

  // Elements to the rows of the head at `index`.
  int64_t offset_of(const int64_t* index) const noexcept {
    int64_t at = 0;
    for (int i = 0; i < rank; ++i) at += index[i] * lead_strides[i];
    return at;
  }
  // Does it differ along a leading dimension?
  bool varies(int dim) const noexcept { return dim < rank && lead_strides[dim] != 0; }
};

// The positions of rows, and the caches by which they turn, if there are.
struct RowPositions {
  PerRow values;  // data null: start + step i
  int64_t start = 0, step = 1;
  PerRow cos_cache, sin_cache;  // data null: none
};

// The positions of rows [leading ..., length, head_dim] of `dtype`; `name` is for messages. Throws
// Error(argument, shape, dtype, overflow).
void take_positions(const char* name, const Rotary& rotary, const RotaryPositions& positions,
                    int64_t pairs, Shape leading, int64_t length, DType dtype, RowPositions& taken);

}  // namespace rapt

#pragma once
// The positions of rows after validation.
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt {

// A tensor [batch ..., rows, own], addressed by head and row. Its members, and those of
// RowPositions, have no initial values, because most calls rotate nothing: take_positions() clears
// them first.
struct PerRow {
  const void* data;
  DType dtype;
  int rank;                        // number of batch dimensions
  int64_t lead_strides[kMaxRank];  // [rank]; 0: equal for all indices
  int64_t row_stride, own_stride;

  // Offset in elements of the rows of the head at `index`.
  int64_t offset_of(const int64_t* index) const noexcept {
    int64_t at = 0;
    for (int i = 0; i < rank; ++i) at += index[i] * lead_strides[i];
    return at;
  }
  // Whether it differs along a leading dimension.
  bool varies(int dim) const noexcept { return dim < rank && lead_strides[dim] != 0; }
};

// The positions of rows, and the caller's caches of cosines and sines, if given.
struct RowPositions {
  PerRow values;  // data null: start + step i
  int64_t start, step;
  PerRow cos_cache, sin_cache;  // data null: none

  // Whether rotations differ along a leading dimension.
  bool vary(int dim) const noexcept {
    return values.varies(dim) || cos_cache.varies(dim) || sin_cache.varies(dim);
  }
};

}  // namespace rapt

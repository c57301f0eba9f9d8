#pragma once
// Where the positions of rows lie, after validation.
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt {

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

  // Do rows turn otherwise along a leading dimension?
  bool vary(int dim) const noexcept {
    return values.varies(dim) || cos_cache.varies(dim) || sin_cache.varies(dim);
  }
};

}  // namespace rapt

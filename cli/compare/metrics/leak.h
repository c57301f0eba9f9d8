#pragma once
// Whether later tokens change what earlier ones get, which no causal call may do.
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt::cli {

// A copy of a dense tensor of floats [..., n, d] whose rows from `from` on, of all matrices, are
// replaced by drawn numbers, four times as large as those that were there.
Tensor with_other_rows(const TensorView& tensor, int64_t from, uint64_t seed);

struct Leak {
  int64_t rows = 0;    // whose bits differ
  int64_t of = 0;      // rows before `from`, of all matrices
  double largest = 0;  // of a row: |other - result| / |result|
};

// Compares the rows before `from` of the outputs [..., n, d] of two calls whose inputs differ from
// that row on. Both are dense, of one dtype and shape.
Leak leak_between(const TensorView& result, const TensorView& other, int64_t from);

}  // namespace rapt::cli

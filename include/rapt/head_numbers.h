#pragma once
// Numbers that differ from head to head: slopes [heads], tables [heads, buckets].
//
// A parameter of a score or normaliser that is declared by head_parameter() is a tensor [..., own
// dimensions] of f32 or f64. Its last `own_rank` dimensions belong to one head. The dimensions
// before them broadcast from the right to the leading dimensions of the output: [heads], [batch,
// heads], [1], or [] for all heads. The call checks that. If the parameter has gradients, those of
// all elements are in d_score_parameters or, for normalisers, in d_normalizer_parameters.
//
// Members are always inlined, as those of positions.h.
#include "rapt/positions.h"
#include "rapt/tensor.h"

namespace rapt {

// The offset, in elements, of the part of the tensor that belongs to `head`.
[[gnu::always_inline]] inline int64_t head_offset(const TensorView& numbers, int own_rank,
                                                  const Head& head) noexcept {
  int64_t offset = 0;
  const int leading = numbers.rank - own_rank;
  for (int d = 0; d < leading; ++d)
    if (numbers.shape[d] != 1) offset += head.index[head.rank - leading + d] * numbers.strides[d];
  return offset;
}

[[gnu::always_inline]] inline double number_at(const TensorView& numbers, int64_t offset) noexcept {
  return numbers.dtype == DType::f64 ? static_cast<const double*>(numbers.data)[offset]
                                     : double{static_cast<const float*>(numbers.data)[offset]};
}

// The number of a head, from a tensor with one number per head.
[[gnu::always_inline]] inline double number_of_head(const TensorView& numbers,
                                                    const Head& head) noexcept {
  return number_at(numbers, head_offset(numbers, 0, head));
}

}  // namespace rapt

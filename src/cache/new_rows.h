#pragma once
// The rows of an append: to each of the sequences [first, last) a run of rows of key and value.
#include "cache/check_tensor.h"
#include "rapt/tensor.h"

namespace rapt {

struct NewRows {
  int64_t first, last;    // sequences
  TensorView key, value;  // [sequences, num_kv_heads, rows, dim]
  TensorView counts;      // [sequences] i64: the first rows of each; or absent
  TensorView starts;      // [sequences + 1] i64: the rows [starts[s], starts[s + 1]); or absent

  int64_t begin(int64_t sequence) const noexcept {
    return starts.defined() ? integer_at(starts, sequence) : 0;
  }
  int64_t count(int64_t sequence) const noexcept {
    if (starts.defined()) return integer_at(starts, sequence + 1) - integer_at(starts, sequence);
    return counts.defined() ? integer_at(counts, sequence) : key.shape[2];
  }
};

// Rows [num_kv_heads, rows, dim] as [1, num_kv_heads, rows, dim] that every sequence reads.
inline TensorView for_every_sequence(const TensorView& rows) noexcept {
  TensorView view = rows;
  view.rank = 4;
  view.shape[0] = 1, view.strides[0] = 0;
  for (int i = 0; i < 3; ++i)
    view.shape[i + 1] = rows.shape[i], view.strides[i + 1] = rows.strides[i];
  return view;
}

}  // namespace rapt

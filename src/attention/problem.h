#pragma once
// A call after validation: everything the conductor needs, in one shape for every input.
#include <cstdint>

#include "rapt/attention.h"

namespace rapt {

// A tensor as the conductor sees it: where the matrix of a (batch, head) begins, and its two
// strides.
struct Operand {
  void* data = nullptr;
  int64_t lead_strides[kMaxRank] = {};  // per leading dimension of the output; 0: broadcast
  int64_t heads_per_group = 1;          // on the last leading dimension
  int64_t row_stride = 0;
  int64_t dim_stride = 0;

  // Elements from `data` to the matrix of the head at `index`.
  int64_t offset_of(const int64_t* index, int rank) const noexcept {
    int64_t at = 0;
    for (int i = 0; i + 1 < rank; ++i) at += index[i] * lead_strides[i];
    if (rank > 0) at += index[rank - 1] / heads_per_group * lead_strides[rank - 1];
    return at;
  }
};

struct Problem {
  DType dtype = DType::f32;
  int leading_rank = 0;
  int64_t leading[kMaxRank] = {};  // of the output
  int64_t heads = 1;               // product of the leading dimensions
  int64_t q_len = 0, k_len = 0, head_dim = 0, value_dim = 0;
  double scale = 1;
  bool has_bias = false;
  Operand query, key, value, bias;  // bias: row = query, dim = key

  Shape leading_dims() const { return {leading, static_cast<size_t>(leading_rank)}; }
  // The index of head `flat` in the leading dimensions.
  void index_of(int64_t flat, int64_t* index) const noexcept;
};

// Checks everything that can be checked before outputs exist. Throws Error. Null data pointers are
// fine here: a plan needs shapes only.
Problem make_problem(const TensorView& query, const TensorView& key, const TensorView& value,
                     const AttentionOptions& options);

// The farthest element of a view must have an address, in bytes, in both directions.
// Throws Error(overflow).
void check_extent(const char* name, const TensorView& view);

// May two indices of the view mean the same element, and do two views share memory? Address ranges
// are compared, so the second answer may be yes for views that interleave.
bool overlaps_itself(const TensorView& view);
bool overlap(const TensorView& a, const TensorView& b);

// Does the data pointer suit the element type? Throws Error(argument).
void check_alignment(const char* name, const TensorView& view);

// Are the data pointers of the inputs there? Throws Error(argument).
void require_data(const TensorView& query, const TensorView& key, const TensorView& value,
                  const AttentionOptions& options);

struct RequestedWeights {
  int64_t row_begin = 0, row_end = 0;  // equal: none
  int64_t heads = 0;                   // how many matrices
};
// Throws Error(argument) for rows or heads that do not exist.
RequestedWeights requested_weights(const Problem& problem,
                                   const std::optional<WeightsRequest>& request);

// The shape of the returned weights. `shape` has room for kMaxRank.
int weights_shape(const Problem& problem, const WeightsRequest& request, int64_t* shape);

// The caller's outputs. Throws Error(shape, dtype, argument, overlap).
struct Outputs {
  Operand output, statistic, weights;  // statistic: row_stride only; weights: lead of its own
};
Outputs check_outputs(const Problem& problem, const TensorView& query, const TensorView& key,
                      const TensorView& value, const AttentionOptions& options,
                      const AttentionOutputs& outputs, std::span<const std::byte> workspace);

}  // namespace rapt

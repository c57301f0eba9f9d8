#pragma once
// A call after validation: everything the conductor needs, in one shape for every input.
#include <cstddef>
#include <cstdint>

#include "attention/call/row_positions.h"
#include "rapt/attention.h"
#include "rapt/mask/parts.h"

namespace rapt {

struct Bytes {  // addresses [begin, end); empty: both 0, which meets nothing
  uintptr_t begin = 0, end = 0;
  bool meets(const Bytes& other) const noexcept { return begin < other.end && other.begin < end; }
};

// A tensor as the conductor sees it: where the matrix of a (batch, head) begins, and its two
// strides, in elements.
struct Operand {
  void* data = nullptr;  // null: no elements, or not wanted, and then nothing else is set
  DType dtype;
  int64_t lead_strides[kMaxRank];  // [leading rank] of the output's dimensions; 0: broadcast
  int64_t heads_per_group;         // on the last leading dimension
  int64_t row_stride;
  int64_t dim_stride;

  // Elements from `data` to the matrix of the head at `index`.
  int64_t offset_of(const int64_t* index, int rank) const noexcept {
    int64_t at = 0;
    for (int i = 0; i + 1 < rank; ++i) at += index[i] * lead_strides[i];
    if (rank > 0) at += index[rank - 1] / heads_per_group * lead_strides[rank - 1];
    return at;
  }
  // The address of an element.
  std::byte* at(int64_t element) const noexcept {
    return static_cast<std::byte*>(data) + element * size_of(dtype);
  }
};

// One sequence of a call; its positions count from its own begin.
struct Sequence {
  int64_t query_begin = 0, q_len = 0;
  int64_t key_begin = 0, k_len = 0;
};

// What happens to rows of queries and keys before they are multiplied. Queries are changed as they
// are packed, keys before all else, into a copy that the problem's `key` is then.
struct RowTransform {
  bool cosine = false;             // divided by their lengths?
  double epsilon = 0;              // the least that they are divided by
  const Rotary* rotary = nullptr;  // null: they do not turn
  int64_t pairs = 0;               // of dimensions that turn
  RowPositions query, key;
  bool turns_key = false;
  bool transforms_key = false;
  Operand original_key;      // the caller's, if it is changed
  int64_t copies[kMaxRank];  // [leading rank] of the matrices of changed keys
  int64_t transformed_matrices = 0;

  bool adds_biases = false;             // is a bias added to queries?
  Operand content_bias, position_bias;  // dim = dimension; only if `adds_biases`; null: none

  bool any() const noexcept { return cosine || rotary != nullptr || adds_biases; }
  // By what rows turn; null: they do not.
  const RowPositions* query_turns() const noexcept { return rotary ? &query : nullptr; }
  const RowPositions* key_turns() const noexcept { return turns_key ? &key : nullptr; }
};

// Rows for each distance of a key from a query (rapt/relative.h).
struct Relative {
  const RelativePositions* given = nullptr;        // null: none, and then nothing else is set
  int64_t distances = 0;                           // rows of a table; 0: biases of queries alone
  bool key = false, query = false, value = false;  // which tables are there?
  Operand key_rows, query_rows, value_rows;        // row = distance; those that are there

  bool any() const noexcept { return given != nullptr; }
  bool tables() const noexcept { return key || query || value; }
  bool log_scale() const noexcept { return tables() && given->exact > 0; }
};

struct Problem {
  DType dtype = DType::f32;         // of query, key and value
  DType output_dtype = DType::f32;  // of the output
  DType result_dtype = DType::f32;  // of the statistic and the captures: what is computed in
  int leading_rank = 0;
  int64_t leading[kMaxRank];  // [leading_rank] of the output
  int64_t heads = 1;          // product of the leading dimensions
  int64_t q_len = 0, k_len = 0, head_dim = 0, value_dim = 0;
  double scale = 1;
  uint64_t dropout_seed = 0, drop_below = 0;  // drop_below = p 2^32; 0: no dropout
  bool has_bias = false;
  bool bias_first = false;  // is the bias added before the scores of the list? Only with both
  Operand query, key, value, bias;                        // bias: row = query, dim = key
  Bytes query_bytes, key_bytes, value_bytes, bias_bytes;  // all that the views reach
  RowTransform rows;  // if any, `key` has dense rows of the workspace, null until there is one
  Relative relative;

  int64_t sequences = 1;                  // packed in the tensors, one after the other
  const int64_t* query_starts = nullptr;  // [sequences + 1]; null: one sequence
  const int64_t* key_starts = nullptr;    // [sequences + 1]
  int64_t query_starts_stride = 1, key_starts_stride = 1;

  // What the weights of pairs that dropout keeps are multiplied by: 1 / (1 - p).
  double kept_factor() const noexcept {
    return 0x1p32 / (0x1p32 - static_cast<double>(drop_below));
  }
  Shape leading_dims() const { return {leading, static_cast<size_t>(leading_rank)}; }
  // The index of head `flat` in the leading dimensions.
  void index_of(int64_t flat, int64_t* index) const noexcept;
  Sequence sequence(int64_t i) const noexcept {
    if (!query_starts) return {0, q_len, 0, k_len};
    const int64_t q = query_starts[i * query_starts_stride];
    const int64_t k = key_starts[i * key_starts_stride];
    return {q, query_starts[(i + 1) * query_starts_stride] - q, k,
            key_starts[(i + 1) * key_starts_stride] - k};
  }
};

// Checks everything that can be checked before outputs exist. Throws Error. Null data pointers of
// query, key, value and bias are fine here: a plan needs shapes only.
Problem make_problem(const TensorView& query, const TensorView& key, const TensorView& value,
                     const AttentionOptions& options);

// Checks what happens to rows of queries and keys, the last of make_problem(). Throws Error.
void take_row_transform(const AttentionOptions& options, Problem& problem);

// Checks options.relative, and what does not go with it; behind take_row_transform(). Throws Error.
void take_relative(const AttentionOptions& options, Problem& problem);

// Calls visit(name, tensor) for the tensors of options.relative that are there.
template <class Visit>
void for_each_relative_tensor(const RelativePositions& relative, const Visit& visit) {
  for (const Parameter& parameter : RelativePositions::kDeclaration.parameters)
    if (parameter.type == ParameterType::tensor)
      if (const TensorView tensor = parameter.get(&relative).tensor; tensor.defined())
        visit(parameter.name, tensor);
}

// Fills in the strides of a view of [..., rows, dims] along the leading dimensions of the problem,
// to which it broadcasts. In place, because a copy would wait for the stores of the parts.
void take_operand(const TensorView& view, const Problem& problem, Operand& operand);

// The same for a bias of [..., q_len or 1, k_len or 1]; false: it does not broadcast.
bool take_bias_operand(const TensorView& bias, const Problem& problem, Operand& operand);

// The addresses that a view reaches. Its farthest element must have one, in bytes, in both
// directions. Throws Error(overflow).
Bytes extent_of(const char* name, const TensorView& view);

// May two indices of the view mean the same element, and do two views share memory? Address ranges
// are compared, so the second answer may be yes for views that interleave.
bool overlaps_itself(const TensorView& view);
bool overlap(const TensorView& a, const TensorView& b);

// Does the data pointer suit the element type? Throws Error(argument).
void check_alignment(const char* name, const TensorView& view);

// Are the data pointers of the inputs there? Throws Error(argument).
void require_data(const TensorView& query, const TensorView& key, const TensorView& value,
                  const AttentionOptions& options);

// The numbers of dropout below which a pair is dropped: p 2^32, rounded to nearest. Throws
// Error(argument) for a probability outside [0, 1).
uint64_t threshold_of(const Dropout& dropout);

// Calls visit(name, tensor) for every tensor among the parameters of the masks and of their parts.
// Throws Error(argument) for a tree of masks that is too large.
template <class Visit>
void for_each_mask_tensor(std::span<const Mask* const> masks, const Visit& visit) {
  for (const Mask* root : masks)
    visit_masks(*root, [&visit](const Mask& mask) {
      for (const Parameter& parameter : mask.declaration().parameters)
        if (parameter.type == ParameterType::tensor)
          visit(parameter.name, parameter.get(dynamic_cast<const void*>(&mask)).tensor);
    });
}

}  // namespace rapt

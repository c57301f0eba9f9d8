#pragma once
// A call after validation.
//
// This room, src/attention/call, checks calls. In: the caller's tensors and options. Out: a
// Problem, Captures, WantedGradients and Operands, which later rooms trust. It may use the public
// headers and the kernel table; it does not depend on tiles or threads.
#include <cstddef>
#include <cstdint>

#include "attention/call/key_pages.h"
#include "attention/call/row_positions.h"
#include "base/rare.h"
#include "base/tensor_memory.h"
#include "rapt/attention.h"
#include "rapt/mask/parts.h"

namespace rapt {

// A tensor in the form that passes read: where the matrix of each (batch, head) begins, and its two
// strides, in elements.
struct Operand {
  void* data = nullptr;  // null: no elements, or not requested; then no other member is set
  DType dtype;
  int64_t lead_strides[kMaxRank];  // [leading rank] of the output's dimensions; 0: broadcast
  int64_t heads_per_group;         // query heads that share a matrix, on the last leading dimension
  int64_t row_stride;
  int64_t dim_stride;
  // Rows of several heads of a grouped call, head by head, that no single stride reaches:
  // `run_rows` rows of each head, and run_stride from head to head. 0: all rows are row_stride
  // apart.
  int64_t run_rows = 0;
  int64_t run_stride = 0;

  // The offset, in elements, of the matrix of the head at `index`.
  int64_t offset_of(const int64_t* index, int rank) const noexcept {
    int64_t at = 0;
    for (int i = 0; i + 1 < rank; ++i) at += index[i] * lead_strides[i];
    if (rank == 0) return at;
    const int64_t head = index[rank - 1];  // most calls have a matrix for each head: no division
    at += (heads_per_group == 1 ? head : head / heads_per_group) * lead_strides[rank - 1];
    return at;
  }
  // The offset, in elements, of a row of a matrix.
  int64_t row_offset(int64_t row) const noexcept {
    if (!rare(run_rows != 0)) return row * row_stride;
    return row / run_rows * run_stride + row % run_rows * row_stride;
  }
  // The address of an element.
  std::byte* at(int64_t element) const noexcept {
    return static_cast<std::byte*>(data) + element * size_of(dtype);
  }
};

// One sequence of a call; positions count from the begin of the sequence.
struct Sequence {
  int64_t query_begin = 0, q_len = 0;
  int64_t key_begin = 0, k_len = 0;
  int64_t cached = 0;  // its place among the sequences of a cache
};

// The row transform of a call: cosine, rotary embedding, query biases. Queries are transformed as
// they are packed. Keys are transformed first of all, into a copy that replaces the problem's
// `key`.
struct RowTransform {
  bool cosine = false;             // rows are divided by their lengths
  double epsilon = 0;              // the smallest divisor
  const Rotary* rotary = nullptr;  // null: no rotation
  int64_t pairs = 0;               // pairs of dimensions that are rotated
  RowPositions query, key;
  bool turns_key = false;
  bool transforms_key = false;
  Operand original_key;      // the caller's key, if keys are transformed
  int64_t copies[kMaxRank];  // [leading rank] lengths of the array of transformed matrices
  int64_t transformed_matrices = 0;

  bool adds_biases = false;             // a bias is added to query rows
  Operand content_bias, position_bias;  // dim = dimension; only if `adds_biases`; null: none

  bool any() const noexcept { return rare(cosine || rotary != nullptr || adds_biases); }
  // The positions by which rows rotate; null: no rotation.
  const RowPositions* query_turns() const noexcept { return rotary ? &query : nullptr; }
  const RowPositions* key_turns() const noexcept { return turns_key ? &key : nullptr; }
};

// Distance tables: rows per distance between query and key (rapt/relative.h).
struct Relative {
  const RelativePositions* given = nullptr;        // null: none; then no other member is set
  int64_t distances = 0;                           // rows of a table; 0: only query biases
  bool key = false, query = false, value = false;  // which tables are given
  Operand key_rows, query_rows, value_rows;        // row = distance; only the given ones are set

  bool any() const noexcept { return rare(given != nullptr); }
  bool tables() const noexcept { return rare(key || query || value); }
  bool log_scale() const noexcept { return tables() && given->exact > 0; }
};

struct Problem {
  DType dtype = DType::f32;         // of query, key and value
  DType output_dtype = DType::f32;  // of the output
  DType result_dtype = DType::f32;  // of the statistic and the captures; computations use it
  int leading_rank = 0;
  int64_t leading[kMaxRank];  // [leading_rank] of the output
  int64_t heads = 1;          // product of the leading dimensions
  int64_t q_len = 0, k_len = 0, head_dim = 0, value_dim = 0;
  double scale = 1;
  uint64_t dropout_seed = 0, drop_below = 0;  // drop_below = p 2^32; 0: no dropout
  bool has_bias = false;
  bool bias_first = false;          // the bias is added before the score functions
  Operand query, key, value, bias;  // bias: row = query, dim = key
  Bytes query_bytes, key_bytes, value_bytes, bias_bytes;  // the addresses that the views reach
  RowTransform rows;  // if it transforms keys, `key` has no data: it will lie in the workspace
  Relative relative;
  KeyPages pages;  // used: `key` and `value` are the first page, and k_len is the capacity

  // Heads of the call, which share keys, whose queries are rows of one head, head by head
  // (forward/grouped_heads.h); 1: none.
  int64_t group_heads = 1;
  // Queries of a head of the call.
  int64_t head_queries() const noexcept { return q_len / group_heads; }

  int64_t sequences = 1;                  // packed one after the other in the tensors
  const int64_t* query_starts = nullptr;  // [sequences + 1]; null: one sequence
  const int64_t* key_starts = nullptr;    // [sequences + 1]
  int64_t query_starts_stride = 1, key_starts_stride = 1;

  // The factor of weights that dropout keeps: 1 / (1 - p).
  double kept_factor() const noexcept {
    return 0x1p32 / (0x1p32 - static_cast<double>(drop_below));
  }
  // The positions by which queries of a sequence rotate: in a cache, they are its last ones.
  Positions turned(Positions queries, int64_t queries_of_sequence,
                   int64_t keys_of_sequence) const noexcept {
    if (pages.used()) queries.start += keys_of_sequence - queries_of_sequence;
    return queries;
  }
  Shape leading_dims() const { return {leading, static_cast<size_t>(leading_rank)}; }
  // The index of head `flat` in the leading dimensions.
  void index_of(int64_t flat, int64_t* index) const noexcept;
  // A sequence of the head at `index`. Without an index, the lengths of keys in a cache are not
  // looked up unless the sequences are packed: k_len is then the capacity.
  Sequence sequence(int64_t i, const int64_t* index = nullptr) const noexcept {
    if (!rare(query_starts != nullptr)) {
      if (!pages.used() || !index) return {0, q_len, 0, k_len};
      return {0, q_len, 0, pages.length(index[0]), index[0]};
    }
    const int64_t q = query_starts[i * query_starts_stride];
    const int64_t count = query_starts[(i + 1) * query_starts_stride] - q;
    if (pages.used()) return {q, count, 0, pages.length(i), i};
    const int64_t k = key_starts[i * key_starts_stride];
    return {q, count, k, key_starts[(i + 1) * key_starts_stride] - k};
  }
};

// Checks everything that can be checked without the outputs. Throws Error. Data pointers of query,
// key, value and bias may be null, because a plan needs only shapes.
Problem make_problem(const TensorView& query, const TensorView& key, const TensorView& value,
                     const AttentionOptions& options);

// Checks the row transform; called late in make_problem(). Throws Error.
void take_row_transform(const AttentionOptions& options, Problem& problem);

// Checks options.relative and rejects what it excludes; called after take_row_transform(). Throws
// Error.
void take_relative(const AttentionOptions& options, Problem& problem);

// Calls visit(name, tensor) for each tensor that options.relative gives.
template <class Visit>
void for_each_relative_tensor(const RelativePositions& relative, const Visit& visit) {
  if (!rare(relative.any())) return;  // most calls: a parameter is read by a call through a pointer
  for (const Parameter& parameter : RelativePositions::kDeclaration.parameters)
    if (parameter.type == ParameterType::tensor)
      if (const TensorView tensor = parameter.get(&relative).tensor; tensor.defined())
        visit(parameter.name, tensor);
}

// Calls visit(parameter, tensor) for each tensor that the parameters of options.method give.
template <class Visit>
void for_each_method_tensor(const Method* method, const Visit& visit) {
  if (!rare(method != nullptr)) return;
  for (const Parameter& parameter : method->declaration().parameters)
    if (parameter.type == ParameterType::tensor)
      if (const TensorView tensor = parameter.get(dynamic_cast<const void*>(method)).tensor;
          tensor.defined())
        visit(parameter, tensor);
}

// Sets `operand` to a view of [..., rows, dims] that broadcasts to the leading dimensions of the
// problem. It is filled in place, because a copy would wait for the stores of its members.
void take_operand(const TensorView& view, const Problem& problem, Operand& operand);

// The same for a bias of [..., q_len or 1, k_len or 1]. Returns false if it does not broadcast.
bool take_bias_operand(const TensorView& bias, const Problem& problem, Operand& operand);

// Checks that no input of a checked problem with elements has a null data pointer. Throws
// Error(argument).
void require_data(const TensorView& query, const TensorView& key, const TensorView& value,
                  const AttentionOptions& options, const Problem& problem);

// The threshold below which a random number drops its pair: p 2^32, rounded to nearest. Throws
// Error(argument) for a probability outside [0, 1).
uint64_t threshold_of(const Dropout& dropout);

// Calls visit(name, tensor) for every tensor among the parameters of the masks and of their parts.
// Throws Error(argument) if the tree of masks is too large.
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

#include "nn/attention/head_norms.h"

#include <algorithm>
#include <cstring>

#include "nn/attention/multi_head_parts.h"
#include "nn/dense.h"
#include "nn/row_tasks.h"

namespace rapt::nn {
namespace {

// The shape [..., length, heads, head_dim] of rows [..., length, heads head_dim].
TensorShape heads_of(const TensorView& rows, int64_t head_dim) {
  TensorShape shape;
  shape.rank = rows.rank + 1;
  std::copy_n(rows.shape, rows.rank, shape.lengths);
  shape.lengths[rows.rank - 1] = rows.shape[rows.rank - 1] / head_dim;
  shape.lengths[rows.rank] = head_dim;
  return shape;
}

// The rows of queries and of keys within a state.
struct ProjectedRows {
  TensorView query, key;

  ProjectedRows(const MultiHeadAttention& layer, const MultiHeadAttention::State& state) {
    const bool joint = !state.key_value.defined();
    query = query_rows(layer, state.projections, joint);
    key = key_rows(layer, joint ? state.projections : state.key_value, joint);
  }
};

// Copies rows at equal distances, each dense, of tensors with equally many elements.
void copy_rows(const TensorView& from, const TensorView& to, const Run& run) {
  if (run.counts() || from.empty()) return;
  const TensorView source = as_matrix(from), target = as_matrix(to);
  const int64_t size = size_of(from.dtype), bytes = source.shape[1] * size;
  for_ranges(run.context, source.shape[0], static_cast<double>(source.count()),
             [&](int64_t begin, int64_t end) {
               for (int64_t r = begin; r < end; ++r)
                 std::memcpy(static_cast<std::byte*>(target.data) + r * target.strides[0] * size,
                             static_cast<std::byte*>(source.data) + r * source.strides[0] * size,
                             static_cast<size_t>(bytes));
             });
}

// A dense tensor [..., length, heads, head_dim] as rows [..., length, heads head_dim].
TensorView joined_heads(const TensorView& heads) {
  TensorView rows = heads;
  rows.rank = heads.rank - 1;
  rows.shape[rows.rank - 1] *= heads.shape[rows.rank];
  rows.strides[rows.rank - 1] = 1;
  return rows;
}

void normalize(const RmsNorm& norm, const TensorView& rows, const TensorView& normed,
               const RmsNorm::State& state, const Run& run) {
  copy_rows(rows, joined_heads(normed), run);
  forward(norm, normed, normed, state, run);
}

}  // namespace

void take_head_norms(const MultiHeadAttention& layer, Arena& arena,
                     MultiHeadAttention::State& state) {
  const ProjectedRows rows(layer, state);
  const TensorShape query = heads_of(rows.query, layer.head_dim);
  const TensorShape key = heads_of(rows.key, layer.head_dim);
  state.normed_query = arena.take(layer.dtype(), query);
  state.normed_key = arena.take(layer.dtype(), key);
  state.q_norm = make_state(*layer.q_norm, query, layer.dtype(), arena);
  state.k_norm = make_state(*layer.k_norm, key, layer.dtype(), arena);
}

void check_head_norms(const MultiHeadAttention& layer, const MultiHeadAttention::State& state) {
  const ProjectedRows rows(layer, state);
  check_output("state.normed_query", state.normed_query, heads_of(rows.query, layer.head_dim),
               layer.dtype());
  check_output("state.normed_key", state.normed_key, heads_of(rows.key, layer.head_dim),
               layer.dtype());
}

void normalize_heads(const MultiHeadAttention& layer, const MultiHeadAttention::State& state,
                     const Run& run) {
  const ProjectedRows rows(layer, state);
  normalize(*layer.q_norm, rows.query, state.normed_query, state.q_norm, run);
  normalize(*layer.k_norm, rows.key, state.normed_key, state.k_norm, run);
}

void head_norm_gradient(const HeadNormGradient& gradient, const Run& run) {
  const Arena::Frame frame(run.scratch);
  const TensorView x = run.scratch.take(gradient.d_normed.dtype, gradient.d_normed.dims());
  copy_rows(gradient.rows, joined_heads(x), run);
  backward(gradient.norm, x, gradient.d_normed, gradient.state, gradient.d_normed, run);
  copy_rows(joined_heads(gradient.d_normed), gradient.d_rows, run);
}

}  // namespace rapt::nn

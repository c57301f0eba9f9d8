#pragma once
// What forward and backward calls of multi-head attention share: shapes and checks, the parts of
// the projections, and the heads as attention reads them.
#include "nn/attention/multi_head_options.h"
#include "rapt/nn/multi_head_attention.h"

namespace rapt::nn {

// Lengths of a tensor, without memory of their own.
struct TensorShape {
  int64_t lengths[kMaxRank];
  int rank = 0;
  operator Shape() const noexcept { return {lengths, static_cast<size_t>(rank)}; }
};

// The shapes of a call's tensors.
struct MultiHeadShapes {
  TensorShape x, key_value, value;  // inputs
  TensorShape projections, keys, attention, statistic;
  bool joint = false;  // projections hold query, key and value; there are no `keys`

  // Throws Error(shape) for x and key_value that do not fit the layer or each other.
  MultiHeadShapes(const MultiHeadAttention& layer, Shape x, Shape key_value);
};

// Checks the tensors of a call with memory. Throws Error(argument,
// shape, dtype, overlap, overflow).
void check_forward(const MultiHeadAttention& layer, const TensorView& x, const TensorView& y,
                   const MultiHeadAttention::State& state, const MultiHeadCall& call);
void check_backward(const MultiHeadAttention& layer, const TensorView& x, const TensorView& d_y,
                    const MultiHeadAttention::State& state, const TensorView& d_x,
                    const MultiHeadCall& call, const MultiHeadGradients& gradients);

// A part of the projections: of in_proj_weight and in_proj_bias the rows [begin, end).
struct ProjectionPart {
  int64_t begin, end;
};
ProjectionPart query_part(const MultiHeadAttention& layer);
ProjectionPart key_part(const MultiHeadAttention& layer);
ProjectionPart value_part(const MultiHeadAttention& layer);

// The first row of the query, of the key or of the value: of the one that a part begins in.
inline int64_t first_row(const MultiHeadAttention& layer, const ProjectionPart& part) {
  const int64_t inner = layer.inner(), kv = layer.kv();
  return part.begin < inner ? 0 : part.begin < inner + kv ? inner : inner + kv;
}

// The parameter that holds the weights of a part, and the rows of it. Where query, key and value
// have weights of their own, a part lies within one of them.
template <class Layer>
auto& weight_of(Layer& layer, const ProjectionPart& part) {
  if (layer.in_proj_weight.defined()) return layer.in_proj_weight;
  const int64_t first = first_row(layer, part);
  return first == 0               ? layer.q_proj_weight
         : first == layer.inner() ? layer.k_proj_weight
                                  : layer.v_proj_weight;
}
inline TensorView weight_rows(const MultiHeadAttention& layer, const TensorView& tensor,
                              const ProjectionPart& part) {
  const int64_t begin = layer.in_proj_weight.defined() ? 0 : first_row(layer, part);
  return tensor.slice(0, part.begin - begin, part.end - begin);
}

// Keys of a tensor [..., k_len + appended_rows, columns] as `count` matrices of `rows` rows that
// begin `distance` rows apart: one matrix, or, with an appended row, one for each sequence.
struct KeyMatrices {
  int64_t count = 0, rows = 0, distance = 0;

  KeyMatrices(const TensorView& keys, int64_t appended_rows);
  // Matrix i of a tensor with the appended rows, and of one without.
  TensorView of_keys(const TensorView& keys, int64_t i) const {
    return as_matrix(keys).slice(0, i * distance, i * distance + rows);
  }
  TensorView of_input(const TensorView& input, int64_t i) const {
    return as_matrix(input).slice(0, i * rows, (i + 1) * rows);
  }
  // The appended rows of all sequences, [count, columns].
  TensorView appended(const TensorView& keys) const;
};

// Writes the projections of a call, and their normalised rows, into the state.
void project_heads(const MultiHeadAttention& layer, const TensorView& x,
                   const MultiHeadAttention::State& state, const Run& run,
                   const MultiHeadCall& call = {});

// Rows of Q [..., length, inner] and of K [..., k_len, kv] within the projections of a state, or
// within a tensor of their layout.
TensorView query_rows(const MultiHeadAttention& layer, const TensorView& projections, bool joint);
TensorView key_rows(const MultiHeadAttention& layer, const TensorView& keys, bool joint);

// The heads of a state as attention reads them: query and output [..., num_heads, length,
// head_dim], key and value
// [..., num_kv_heads, keys, head_dim].
struct HeadViews {
  TensorView query, key, value, output;

  HeadViews(const MultiHeadAttention& layer, const MultiHeadAttention::State& state);
};

// The three products (rapt/product.h), or, in counting mode, their workspace. Matrices have rank 2.
struct Products {
  const Run& run;

  void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
               const TensorView& y) const;
  void input_gradient(const TensorView& d_y, const TensorView& weight, const TensorView& d_x,
                      bool add) const;
  // Either gradient may be absent.
  void weight_gradient(const TensorView& d_y, const TensorView& x, const TensorView& d_weight,
                       const TensorView& d_bias) const;
};

}  // namespace rapt::nn

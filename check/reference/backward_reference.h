#pragma once
// The reference of the gradients: the derivative of reference.h by its formulas, one loop per sum,
// written to be read. With the loss
//
//   L = sum d_output o output + sum d_lse lse + sum d_weights o weights
//
// and, per query i and key j that it may attend to, z = scale query . key, s = f(z) + bias,
// p = e^(s - lse) and k = kept / (1 - dropout), 1 without dropout:
//
//   dP(i, j)    = k d_output(i) . value(j) + d_weights(i, j)
//   delta(i)    = d_output(i) . output(i) + sum_j p d_weights(i, j) - d_lse(i)
//   dS(i, j)    = p (dP - delta)
//   dZ(i, j)    = dS f'(z)                    f: the scores of the list (score_chain.h)
//   d_query(i)  = scale sum_j dZ key(j)       d_key(j) = scale sum_i dZ query(i)
//   d_value(j)  = sum_i k p d_output(i)       d_bias   = sum dS over what shares the element, or dZ
//                                                        if z = scale query . key + bias
//   d_scale     = sum dZ query . key
//   d_number    = sum dS df/dnumber           of every number of a score
//   d_sink, d_alpha: normalizers/softmax_with_sink.h, entmax_family.h
//
// With relative positions, c the row of the pair, u and v the biases (relative_rows.h):
//
//   z            = scale ((query + u) . key + (query + v) . key_rows(c) + key . query_rows(c))
//   dP           = k d_output(i) . (value(j) + value_rows(c)) + d_weights(i, j)
//   d_query(i)   = scale sum_j dZ (key(j) + key_rows(c))
//   d_key(j)     = scale sum_i dZ (query(i) + u + query_rows(c))
//   d_key_rows   = scale sum dZ (query(i) + v)    over the pairs that have the row, of all heads
//   d_query_rows = scale sum dZ key(j)            that read it; d_value_rows = sum k p d_output(i)
//   d_content_bias = scale sum dZ key(j)          d_position_bias = scale sum dZ key_rows(c)
//
// If rows are transformed before they are multiplied (row_transform.h), d_query and d_key of the
// transformed rows go back through the transform, before the scale. Rounding of transformed rows
// does not affect the formulas.
//
// These are p, delta and dS of softmax; other normalisers have their own (normalizer_formula.h).
// Gradients of inputs that are broadcast or shared by a group are summed over all heads that read
// them. A masked pair adds nothing, whatever it contains; a dropped one is multiplied by 0. A dS of
// 0 gives a dZ and a d_number of 0, whatever the score is. Source: the chain rule; Dao et al. 2022,
// arXiv:2205.14135, appendix B.2.
//
// The same loops run in long double and double, as the truth, and in the dtype itself ("plain"), as
// for the forward pass. In the plain loop the output is rounded to its dtype before delta is
// computed, and the gradients of query, key and value to theirs. With `rounds_weights`, p (without
// k, which is applied at the end) and dZ are rounded to the inputs' dtype before they are
// multiplied by rows of d_output, key and query (and so in d_scale), unless d_output has another
// dtype. Nothing else is rounded to 16 bits.
#include "check/reference/reference.h"

namespace check {

// Whether p and dZ are rounded.
inline bool rounds_products(const Problem& p) {
  return p.rounds_weights && p.output_dtype.value_or(p.query.dtype) == p.query.dtype;
}

// The gradients of the results, dense.
struct Incoming {
  rapt::TensorView d_output;   // [..., q_len, value_dim]
  rapt::TensorView d_lse;      // [..., q_len]; absent: 0
  rapt::TensorView d_weights;  // [..., rows, k_len] or [heads, rows, k_len]; absent: 0
  WeightsWanted weights;       // which rows of which heads these are
  std::optional<rapt::DType> gradient_dtype;  // of query, key and value; default: the query's
};

// The contribution of one query to the gradients: a number for each of its pairs.
template <class Real>
struct GradientRow {
  const Row<Real>* forward = nullptr;  // its result, and which query of which head
  std::vector<Real> d_output;          // [value_dim]
  std::vector<Real> weights;           // p, from the statistic
  std::vector<Real> given;             // d_weights
  std::vector<Real> d_weights;         // dP
  std::vector<Real> d_scores;          // dS
  std::vector<Real> d_products;        // dZ
  Real delta = 0, d_statistic = 0;

  RowToPassBack<Real> to_pass_back(Real of_output) const {
    return {weights, d_weights, d_statistic, of_output};
  }
};

// The place of a matrix of one head in the dense gradient of `t`.
struct Places {
  int64_t start = 0, row_stride = 0, column_stride = 0;
  size_t operator()(int64_t row, int64_t column) const {
    return static_cast<size_t>(start + row * row_stride + column * column_stride);
  }
};
Places places_of(const rapt::TensorView& t, int64_t head, const Sizes& sizes);
// The same for the tables of relative positions; a bias has only row 0.
using RelativePlaces = std::array<Places, RelativeSpec::kParts>;
RelativePlaces relative_places_of(const RelativeSpec& relative, int64_t head, const Sizes& sizes);

// Dense gradients, in the shapes of the inputs. With a sample: of the loss over the rows of the
// sample only.
template <class Real>
struct Gradients {
  std::vector<Real> query;  // [..., q_len, head_dim]
  std::vector<Real> key;    // [..., k_len, head_dim]
  std::vector<Real> value;  // [..., k_len, value_dim]
  std::vector<Real> bias;   // as the bias; empty without one
  Real scale = 0;
  std::vector<Real> numbers;  // of all scores, in their order, as d_score_parameters
  Real normalizer = 0;        // of the normaliser's parameter, as d_normalizer_parameters
  std::array<std::vector<Real>, RelativeSpec::kParts> relative;  // as the tables; empty without
  // The gradients of transformed rows, before the scale; empty without a row transform.
  std::vector<Real> transformed_query, transformed_key;
};
// Calls visit(row, given row, at) for every row of `t`, [..., rows, width]; `at`: of its first
// element in a dense tensor.
template <class Real, class Visit>
void for_each_matrix_row(const rapt::TensorView& t, const Visit& visit) {
  const int64_t rows = t.shape[t.rank - 2], width = t.shape[t.rank - 1];
  const rapt::Shape leading(t.shape, static_cast<size_t>(t.rank - 2));
  size_t at = 0;
  for (int64_t m = 0; at < static_cast<size_t>(t.count()); ++m) {
    const auto given =
        values_of<Real>(matrix_of(t, leading_index(m, leading), leading), rows, width);
    for (int64_t r = 0; r < rows; ++r, at += static_cast<size_t>(width))
      visit(r, given.data() + r * width, at);
  }
}
// Also calls also(row), if it is given, for the rows of the sample, also for rows without keys.
template <class Real>
Gradients<Real> gradients(const Problem& problem, const Incoming& incoming,
                          const Sample& sample = {},
                          const std::function<void(const GradientRow<Real>&)>& also = {});

}  // namespace check

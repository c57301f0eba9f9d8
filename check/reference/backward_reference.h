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
//   dZ(i, j)    = dS f'(z)                    f: the scores of the list (score_spec.h)
//   d_query(i)  = scale sum_j dZ key(j)       d_key(j) = scale sum_i dZ query(i)
//   d_value(j)  = sum_i k p d_output(i)       d_bias   = sum dS over what shares the element, or dZ
//                                                        if z = scale query . key + bias
//   d_scale     = sum dZ query . key
//   d_number    = sum dS df/dnumber           of every number of a score
//   d_sink      = - sum_i e^(sink - lse) delta       d_alpha: reference_entmax.h
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
// If rows are transformed before they are multiplied (transformed_rows.h), d_query and d_key of the
// transformed rows go back through the transform, before the scale. Rounding of transformed rows
// does not affect the formulas.
//
// These are p, delta and dS of softmax; other normalisers have their own (reference_normalizer.h).
// Gradients of inputs that are broadcast or shared by a group are summed over all heads that read
// them. A masked pair adds nothing, whatever it contains; a dropped one is multiplied by 0. Source:
// the chain rule; Dao et al. 2022, arXiv:2205.14135, appendix B.2.
//
// The same loops run in long double and double, as the truth, and in the dtype itself ("plain"), as
// for the forward pass. In the plain loop the output is rounded to its dtype before delta is
// computed, and the gradients of query, key and value to theirs. With `rounds_weights`, p (without
// k, which is applied at the end) and dZ are rounded to the inputs' dtype before they are
// multiplied by rows of d_output, key and query (and so in d_scale), unless d_output has another
// dtype. Nothing else is rounded to 16 bits. Shares no code with the library, except TensorView,
// which describes where the elements are.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "check/reference/reference.h"

namespace check {

// Whether p and dZ are rounded.
inline bool rounds_products(const Problem& p) {
  return p.rounds_weights && p.output_dtype.value_or(p.query.dtype) == p.query.dtype;
}

// The gradients of the results.
struct Incoming {
  rapt::TensorView d_output;   // [..., q_len, value_dim]
  rapt::TensorView d_lse;      // [..., q_len]; absent: 0
  rapt::TensorView d_weights;  // [..., rows, k_len] or [heads, rows, k_len]; absent: 0
  WeightsWanted weights;       // which rows of which heads these are
  std::optional<rapt::DType> gradient_dtype;  // of query, key and value; default: the query's
};

// The dense inputs of the gradients of one head.
template <class Real>
struct HeadInputs {
  int64_t head_dim = 0, value_dim = 0;
  std::vector<Real> query, key;       // [q_len, head_dim], [k_len, head_dim]
  std::vector<Real> value, d_output;  // [k_len, value_dim], [q_len, value_dim]
  RelativeRows<Real> relative;
  std::vector<double> query_errors,
      key_errors;  // as query and key, if rows are transformed; or empty
  const Real* query_row(int64_t i) const { return &query[static_cast<size_t>(i * head_dim)]; }
  const Real* key_row(int64_t j) const { return &key[static_cast<size_t>(j * head_dim)]; }
  // The error bound of element d of a row, in units of e.
  double query_error(int64_t i, int64_t d) const { return error(query_errors, i, d); }
  double key_error(int64_t j, int64_t d) const { return error(key_errors, j, d); }
  double error(const std::vector<double>& of, int64_t row, int64_t d) const {
    return of.empty() ? 0 : of[static_cast<size_t>(row * head_dim + d)];
  }
  const Real* value_row(int64_t j) const { return value.data() + j * value_dim; }
  const Real* d_output_row(int64_t i) const { return d_output.data() + i * value_dim; }
};

// The contribution of one query to the gradients, over the keys that it attends to.
template <class Real>
struct GradientRow {
  const Row<Real>* forward = nullptr;  // its result, and which query of which head
  const HeadInputs<Real>* inputs = nullptr;
  std::vector<int64_t> keys;              // these keys, in ascending order
  std::vector<int64_t> rows;              // of tables for relative positions; empty without
  std::vector<Real> scores;               // s
  std::vector<Real> dots;                 // query . key, that is z / scale
  std::vector<Real> weights;              // p
  std::vector<Real> kept;                 // k p
  std::vector<Real> d_weights;            // dP
  std::vector<Real> d_scores;             // dS
  std::vector<Real> d_products;           // dZ
  std::vector<Dual<Real>> slopes;         // f'(z), with its error
  std::vector<Dual<Real>> number_slopes;  // [keys, per pair] df/dnumber, likewise
  std::vector<int64_t> number_at;         // [keys, per pair] of which number of all; -1: none
  Real delta = 0, d_statistic = 0;
  // The index of the first number of pair x in these.
  size_t first_number_of(size_t x) const { return x * (number_at.size() / keys.size()); }
  int64_t row_of(size_t x) const { return rows.empty() ? 0 : rows[x]; }
  // The sizes of the terms of these sums: |sum| + sqrt(sum of squares).
  std::vector<PairProduct<Real>> products;  // of query . key
  std::vector<Real> value_terms;            // of k d_output . value
  Real output_terms = 0;                    // of d_output . output
  Real output_squares = 0;                  // sqrt(sum_c (d_output output)^2)
  Real given_terms = 0;                     // sum_j p |d_weights| + |d_lse|
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

// Calls visit(row) for the rows of the sample, also for rows without keys.
template <class Real>
void for_each_gradient_row(const Problem& problem, const Incoming& incoming, const Sample& sample,
                           const std::function<void(const GradientRow<Real>&)>& visit);

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
// Turns gradients of transformed rows, [..., rows, head_dim] as `t`, into those of the given rows
// `t`; `errors`, in units of e, in the same way.
template <class Real>
void transform_back(const RowTransform<Real>& change, const rapt::TensorView& t,
                    std::vector<Real>& gradients, std::vector<double>& errors);
// Also calls also(row), if it is given, as for_each_gradient_row() does.
template <class Real>
Gradients<Real> gradients(const Problem& problem, const Incoming& incoming,
                          const Sample& sample = {},
                          const std::function<void(const GradientRow<Real>&)>& also = {});

}  // namespace check

#pragma once
// The reference: attention by its formulas, one loop per sum, written to be read.
//
//   score(i, j)  = f(scale * sum_d query[i, d] key[j, d]) + bias[i, j]
//                  f: the scores of the list, one after the other (score_spec.h)
//               or f(scale * sum_d query[i, d] key[j, d] + bias[i, j]), if the bias comes first
//                  Relative positions add products to the sum over d, and rows to the values
//                  (relative_rows.h); rows of query and key may be changed before
//                  (transformed_rows.h)
//   weight(i, j) = e^score(i, j) / sum_j' e^score(i, j')         over the keys that i attends to
//   lse(i)       = ln sum_j e^score(i, j)
//   output(i)    = sum_j kept(i, j) / (1 - dropout) weight(i, j) value[j]      kept: philox.h
//   entropy(i)   = - sum_j weight(i, j) ln weight(i, j)
//
// weight and lse are those of softmax; other normalisers have their own, and may have another
// number per row, or none (reference_normalizer.h).
//
// A pair is masked out if the predicate is false or the bias is -inf. It is as if the key were
// absent, whatever its key and value contain. A row without keys has output 0, lse -inf, weights 0
// and entropy 0. Everything else is IEEE arithmetic: NaN and Inf propagate as in the formulas.
//
// The same loops run in long double and double, as the truth for f64 and for the other dtypes, and
// in the dtype itself ("plain"). The error of the plain loop determines how much error a tensor may
// have (tolerance.h). The plain loop for 16 bits does what 16-bit products do: it multiplies and
// sums the inputs in f32; if `rounds_weights`, the e^(score - maximum) of a row are rounded to 16
// bits before they are multiplied by the values; the output is rounded to its dtype. Shares no code
// with the library, except TensorView, which describes where the elements are.
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "check/reference/reference_normalizer.h"
#include "check/reference/relative_rows.h"
#include "check/reference/score_spec.h"
#include "check/reference/transformed_rows.h"
#include "check/reference/two_parts.h"
#include "check/spec/captures.h"
#include "rapt/tensor.h"

namespace check {

// Returns the place of the pair of query i and key j. Empty: its place in the tensors.
using Placed = std::function<PairPlace(std::span<const int64_t> leading, int64_t i, int64_t j)>;

// Whether query i of the head at `leading` (an index in the leading dimensions) may attend to key
// j.
using Allowed = std::function<bool(std::span<const int64_t> leading, int64_t i, int64_t j)>;

struct Problem {
  rapt::TensorView query;  // [..., q_len, head_dim]
  rapt::TensorView key;    // [..., k_len, head_dim]
  rapt::TensorView value;  // [..., k_len, value_dim]
  rapt::TensorView bias;   // [..., q_len or 1, k_len or 1], may be absent
  std::optional<double> scale;
  Allowed allowed;  // empty: all
  std::vector<ScoreSpec> scores = {};
  bool bias_first = false;  // the bias is added before the scores of the list
  RelativeSpec relative = {};
  RowSpec rows = {};
  Placed placed = {};
  // The positions of query i and key j in their own sequence. Empty: i and j.
  std::function<int64_t(int64_t)> query_place = {}, key_place = {};
  Normalizer normalizer = {};
  // The number of keys of the sequence that query i belongs to; empty: k_len.
  std::function<int64_t(int64_t i)> k_len_of = {};
  double dropout = 0;  // probability
  uint64_t dropout_seed = 0;
  std::optional<rapt::DType> output_dtype = {};  // default: the query's
  bool rounds_weights = false;
  LeftOut left_out = {};  // the parts of products that are left out; the plain loop leaves out none
};

// The rows that are computed, in this order: each of `rows` of each of `heads` (flat indices into
// the leading dimensions). Absent: all.
struct Sample {
  std::optional<std::vector<int64_t>> heads, rows;
};

struct Sizes {
  std::vector<int64_t> leading;
  int64_t heads = 1, q_len = 0, k_len = 0, head_dim = 0, value_dim = 0;
};

// One row of the result, and the sizes of the terms of its sums, to which rounding errors are
// proportional.
template <class Real>
struct Row {
  int64_t head = 0, index = 0;
  std::vector<Real> output;   // [value_dim]
  std::vector<Real> weights;  // [k_len]
  std::vector<Real> scores;   // [k_len], where the pair is allowed
  std::vector<char> seen;     // [k_len]: whether the pair is allowed
  std::vector<Real> kept;     // [k_len]: the factor of the weight by dropout
  Normalizer normalizer;      // for the keys of its sequence
  Real statistic = 0;         // of the normaliser: lse
  Real slopes = 0;            // of a sparse normaliser: sum_j u_j
  Real cut = 0;               // of a sparse normaliser: the smallest score that has a weight
  Real condition = 0;         // of the row's sum: see Weighed
  Real entropy = 0;
  std::vector<Real> output_squares;  // [value_dim]: sqrt(sum_j (kept weight value)^2)
  double score_error = 0;  // max_j of the error bound of the score, in units of e (dual_numbers.h)
  Real score_mean = 0;     // |sum_j weight score|
  // The sizes of the elements that a weight multiplies: |value|, or |value| + |value_rows|.
  std::span<const Real> value_sizes;  // [k_len, value_dim], where the pair is allowed
  std::span<const Real> value_sum;    // [value_dim]: the sum over all keys, of the finite ones
};

// A scaled product as a kernel computes it, with its error (tolerance.h): of the scale, of sums
// over head_dim in any order, and of the parts that are left out.
template <class Real>
Dual<Real> product_of(Real scale, const PairProduct<Real>& pair, int64_t head_dim,
                      const LeftOut& left_out) {
  constexpr double e = std::numeric_limits<float>::epsilon();  // nothing is left out of f64
  const double grows = 1 + std::sqrt(static_cast<double>(head_dim)) / 4 + left_out.rows / e;
  return {scale * pair.sum, 0, size(scale * pair.terms) * grows + size(scale * pair.added), 0};
}

// The place of a pair in a problem.
PairPlace place_of(const Problem& problem, const Sizes& sizes, std::span<const int64_t> leading,
                   int64_t i, int64_t j);

// Throws std::logic_error for shapes that do not fit.
Sizes sizes_of(const Problem& problem);

// The row transforms of query and key.
template <class Real>
RowTransform<Real> query_change(const Problem& p, const Sizes& sizes) {
  const CountedRows* turns = p.rows.rotary ? &p.rows.rotary->query : nullptr;
  return {p.rows, turns, p.query.dtype, sizes.head_dim, sizes.q_len, p.query_place};
}
template <class Real>
RowTransform<Real> key_change(const Problem& p, const Sizes& sizes) {
  const bool turns = p.rows.rotary && p.rows.rotary->turns_key;
  return {p.rows,      turns ? &p.rows.rotary->key : nullptr,
          p.key.dtype, sizes.head_dim,
          sizes.k_len, p.key_place};
}

// Calls visit(row) for the rows of the sample. Real: float, double, long double.
template <class Real>
void for_each_row(const Problem& problem, const Sample& sample,
                  const std::function<void(const Row<Real>&)>& visit);

// All rows, one after the other.
template <class Real>
struct Result {
  Sizes sizes;
  std::vector<Real> output;   // [..., q_len, value_dim]
  std::vector<Real> lse;      // [..., q_len]
  std::vector<Real> weights;  // [..., q_len, k_len]
};
template <class Real>
Result<Real> attention(const Problem& problem);

}  // namespace check

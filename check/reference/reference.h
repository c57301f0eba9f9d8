#pragma once
// The reference: attention by its formulas, one loop per sum, written to be read.
//
//   score(i, j)  = f(scale * sum_d query[i, d] key[j, d]) + bias[i, j]
//                  f: the scores of the list, one after the other (score_chain.h)
//               or f(scale * sum_d query[i, d] key[j, d] + bias[i, j]), if the bias comes first
//                  Relative positions add products to the sum over d, and rows to the values
//                  (relative_rows.h); rows of query and key may be changed before
//                  (row_transform.h)
//   weight(i, j) = e^score(i, j) / sum_j' e^score(i, j')         over the keys that i attends to
//   lse(i)       = ln sum_j e^score(i, j)
//   output(i)    = sum_j kept(i, j) / (1 - dropout) weight(i, j) value[j]      kept: philox.h
//   entropy(i)   = - sum_j weight(i, j) ln weight(i, j)
//
// weight and lse are those of softmax; other normalisers have their own, and may have another
// number per row, or none (normalizer_formula.h).
//
// A pair is masked out if the predicate is false or the bias is -inf. It is as if the key were
// absent, whatever its key and value contain. A row without keys has output 0, lse -inf, weights 0
// and entropy 0. With a sparse normaliser, a pair of weight 0 has no part in sums, whatever its
// value contains. Everything else is IEEE arithmetic: NaN and Inf propagate as in the formulas.
//
// The same loops run in long double and double, as the truth for f64 and for the other dtypes, and
// in the dtype itself ("plain"). The plain loop for 16 bits does what 16-bit products do: it
// multiplies and sums the inputs in f32; if `rounds_weights`, the e^(score - maximum) of a row are
// rounded to 16 bits before they are multiplied by the values; the output is rounded to its dtype.
// If `in_parts`, the products of an infinite weight, or gradient of a score, are NaN.
// Shares no code with the library, except TensorView, which describes where the elements are.
#include "check/reference/feature_problem.h"
#include "check/reference/normalizer.h"
#include "check/reference/relative_rows.h"
#include "check/reference/row_transform.h"
#include "check/reference/score_chain.h"
#include "check/spec/captures.h"

namespace check {

// Returns the place of the pair of query i and key j. Empty: its place in the tensors.
using Placed = std::function<PairPlace(std::span<const int64_t> leading, int64_t i, int64_t j)>;

// Whether query i of the head at `leading` (an index in the leading dimensions) may attend to key
// j.
using Allowed = std::function<bool(std::span<const int64_t> leading, int64_t i, int64_t j)>;

// The parts of products that a kernel leaves out, relative to a product: of elements of two rows;
// of a weight and an element.
struct LeftOut {
  double rows = 0, weights = 0;
};

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
  // The positions of query i and key j by which row transforms count. Empty: i and j.
  OfSequence query_place = {}, key_place = {};
  Normalizer normalizer = {};
  // The number of keys of the sequence that query i belongs to; empty: k_len.
  OfSequence k_len_of = {};
  double dropout = 0;  // probability
  uint64_t dropout_seed = 0;
  bool drops_by_place = false;  // dropout counts keys from the start of their sequence
  std::optional<rapt::DType> output_dtype = {};  // default: the query's
  bool rounds_weights = false;
  LeftOut left_out = {};  // of kernels; the loops here leave out nothing
  bool in_parts = false;  // weights are multiplied as sums of bf16, which an infinite one is not
  // Scores do not depend on query, key and scale, whose gradients are then 0.
  bool constant_scores = false;
  // Weights are products of features instead; the loops over pairs do not compute them, but
  // feature_loops.h.
  std::optional<FeatureProblem> features = {};
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
// Throws std::logic_error for shapes that do not fit.
Sizes sizes_of(const Problem& problem);

// The place of a pair in a problem.
PairPlace place_of(const Problem& problem, const Sizes& sizes, std::span<const int64_t> leading,
                   int64_t i, int64_t j);

template <class Real>
Real scale_of(const Problem& p, const Sizes& sizes) {
  return p.scale ? static_cast<Real>(*p.scale) : 1 / std::sqrt(static_cast<Real>(sizes.head_dim));
}
// The transforms of the rows of the head at `leading`. Gradients name no head: in their problems
// all heads have the same places.
template <class Real>
RowTransform<Real> query_transform(const Problem& p, const Sizes& sizes,
                                   std::span<const int64_t> leading = {}) {
  const CountedRows* positions = p.rows.rotary ? &p.rows.rotary->query : nullptr;
  return {p.rows, positions, p.query.dtype, sizes.head_dim, p.query_place, leading};
}
template <class Real>
RowTransform<Real> key_transform(const Problem& p, const Sizes& sizes,
                                 std::span<const int64_t> leading = {}) {
  const bool turns = p.rows.rotary && p.rows.rotary->turns_key;
  const CountedRows* positions = turns ? &p.rows.rotary->key : nullptr;
  return {p.rows, positions, p.key.dtype, sizes.head_dim, p.key_place, leading};
}

// The dense inputs of one head; query and key after their row transforms.
template <class Real>
struct HeadInputs {
  int64_t index = -1, head_dim = 0, value_dim = 0;
  std::vector<int64_t> leading;         // its index in the leading dimensions
  std::vector<Real> query, key, value;  // [q_len, head_dim], [k_len, head_dim], [k_len, value_dim]
  Matrix bias;
  RelativeRows<Real> relative;

  const Real* query_row(int64_t i) const { return query.data() + i * head_dim; }
  const Real* key_row(int64_t j) const { return key.data() + j * head_dim; }
  const Real* value_row(int64_t j) const { return value.data() + j * value_dim; }
};

// A query and a key that it attends to.
template <class Real>
struct Pair {
  int64_t key = 0;
  PairPlace place;
  int64_t table_row = 0;  // of tables for relative positions
  Real bias = 0;
  Real dot = 0;                 // query . key
  ScoreChain<Real> chain = {};  // from scale dot, and the bias if it comes first
  Real score = 0;
  Real weight = 0;
  Real kept = 0;  // the factor of the weight by dropout
};

// The results of one query.
template <class Real>
struct Row {
  int64_t head = 0, index = 0;
  const HeadInputs<Real>* inputs = nullptr;
  Normalizer normalizer;          // for the keys of its sequence
  std::vector<Pair<Real>> pairs;  // in the order of their keys
  Weighed<Real> weighed;          // powers of the pairs; lse
  std::vector<Real> weights;      // [k_len], 0 where the pair is masked out
  std::vector<Real> output;       // [value_dim]
  Real entropy = 0;
};

// The results of all rows of a sample, one after the other, and the captures of whole tensors.
template <class Real>
struct Result {
  Sizes sizes;
  std::vector<Real> output;       // [..., q_len, value_dim]
  std::vector<Real> lse;          // [..., q_len]
  std::vector<Real> weights;      // [..., rows, k_len], or [heads, rows, k_len]
  std::vector<Real> entropy;      // [..., q_len]
  std::vector<Real> top_weights;  // [..., q_len, top_k]: the largest, 0 behind the last key
  std::vector<Real> received;     // [..., k_len]: sum_i weight(i, j)
  std::vector<Real> map;          // [..., rows, columns], or [heads, rows, columns]
};
// Real: float, double, long double. Also calls also(row), if it is given, for each row.
template <class Real>
Result<Real> attention(const Problem& problem, const Captures& captures = all_weights(),
                       const Sample& sample = {},
                       const std::function<void(const Row<Real>&)>& also = {});

}  // namespace check

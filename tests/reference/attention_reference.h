#pragma once
// The reference: attention as the formulas say it, one loop per sum, written to be read.
//
//   score(i, j)  = scale * sum_d query[i, d] key[j, d] + bias[i, j]
//   lse(i)       = ln sum_j e^score(i, j)                        over the keys that i may see
//   weight(i, j) = e^score(i, j) / sum_j' e^score(i, j')
//   output(i)    = sum_j weight(i, j) value[j]
//
// A pair is excluded when the predicate is false or the bias is -inf; an excluded pair is as if the
// key were absent, whatever its key and value hold. A row without keys has output 0, lse -inf and
// weights 0. Everything else is IEEE arithmetic: NaN and Inf go where the formulas take them.
//
// The same loops run in long double and double, which are the truth for f64 and f32, and in the
// dtype itself ("plain"), whose error says how much error a tensor may have (tolerance.h).
// Shares no code with the library: only TensorView, which says where the elements lie.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "rapt/tensor.h"

namespace reference {

// May query i of the head at `leading` (an index into the output's leading dimensions) see key j?
using Allowed = std::function<bool(std::span<const int64_t> leading, int64_t i, int64_t j)>;

struct Problem {
  rapt::TensorView query;  // [..., q_len, head_dim]
  rapt::TensorView key;    // [..., k_len, head_dim]
  rapt::TensorView value;  // [..., k_len, value_dim]
  rapt::TensorView bias;   // [..., q_len or 1, k_len or 1], may be absent
  std::optional<double> scale;
  Allowed allowed;  // empty: all
};

template <class Real>
struct Result {
  std::vector<int64_t> leading;
  int64_t q_len = 0, k_len = 0, head_dim = 0, value_dim = 0;
  std::vector<Real> output;   // [..., q_len, value_dim]
  std::vector<Real> lse;      // [..., q_len]
  std::vector<Real> weights;  // [..., q_len, k_len]
  // How large the terms are of which a result is the sum; rounding is proportional to them.
  std::vector<Real> output_terms;  // [..., q_len, value_dim]: sum_j weight |value|
  std::vector<Real> dot_terms;     // [..., q_len]: max_j |scale| (|query . key| + |products|_2)
  std::vector<Real> bias_terms;    // [..., q_len]: max_j |bias|
  std::vector<Real> value_sum;     // [..., value_dim]: sum_j |value|, over the finite ones
};

// The leading dimensions of the output. Throws std::logic_error for shapes that do not fit.
std::vector<int64_t> leading_dimensions(const Problem& problem);

// Real: float, double, long double.
template <class Real>
Result<Real> attention(const Problem& problem);

// The element at `index` of a view of f32, f64, i64 or bool.
double element(const rapt::TensorView& view, std::span<const int64_t> index);

}  // namespace reference

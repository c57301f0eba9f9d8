#pragma once
// The terms that relative positions (rapt/relative.h) add in `rapt explain`, in plain float64: to
// the products of queries and keys, and to the values.
#include <cstdint>
#include <vector>

#include "cli/explain/explain_step.h"
#include "rapt/relative.h"

namespace rapt::cli {

struct PlainRelative {
  Tensor query;        // f64 [q_len, head_dim], what meets the keys: query + content_bias
  Tensor scores;       // f64 [q_len, k_len], added to the products; absent without such tables
  Tensor sizes;        // likewise: the sum of the sizes of the terms of each
  int64_t tables = 0;  // that scores are made of
  Tensor values;       // f64 [q_len k_len, value_dim], added to the value of each pair; or absent
};

// query f64 [q_len, head_dim], key f64 [k_len, head_dim]. Adds steps up to the rows that each pair
// meets. Sums of queries and biases are rounded to `dtype`, as the library does. Throws Failure for
// tables of several heads.
PlainRelative plain_relative(const RelativePositions& relative, const Tensor& query,
                             const Tensor& key, DType dtype, std::vector<Step>& steps);

// f64 [q_len, value_dim]: what the values that are added come to, with weights [q_len, k_len].
Tensor weighted(const Tensor& weights, const Tensor& values);

}  // namespace rapt::cli

#pragma once
// The terms that relative positions (rapt/relative.h) add in `rapt explain`, in plain float64: to
// the products of queries and keys, and to the values.
#include <cstdint>
#include <vector>

#include "cli/explain/explain_step.h"
#include "rapt/relative.h"

namespace rapt::cli {

struct PlainRelative {
  Tensor query;        // f64 [q_len, head_dim]: query + content_bias, multiplied by the keys
  Tensor scores;       // f64 [q_len, k_len], added to the products; absent without such tables
  Tensor sizes;        // as scores: the sum of the sizes of the terms of each score
  int64_t tables = 0;  // the number of tables that add to scores
  Tensor values;       // f64 [q_len k_len, value_dim], added to the value of each pair; or absent
};

// Computes the terms for query f64 [q_len, head_dim] and key f64 [k_len, head_dim]. Adds steps up
// to the table row of each pair. Sums of queries and biases are rounded to `dtype`, as in the
// library. Throws Failure for tables of several heads.
PlainRelative plain_relative(const RelativePositions& relative, const Tensor& query,
                             const Tensor& key, DType dtype, std::vector<Step>& steps);

// The sum of the added values with weights [q_len, k_len]: f64 [q_len, value_dim].
Tensor weighted(const Tensor& weights, const Tensor& values);

}  // namespace rapt::cli

// Plain relative positions, pair by pair.
#include "cli/explain/explain_relative.h"

#include <algorithm>
#include <cmath>

#include "cli/explain/explain_arguments.h"
#include "cli/explain/explain_plain.h"
#include "cli/files/conversion.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "rapt/mask/mask.h"

namespace rapt::cli {
namespace {

// [1, distances, dims] is as good as [distances, dims]; f64, of the rank that one head has.
Tensor of_one_head(const char* name, TensorView tensor, int own_rank) {
  const TensorView given = tensor;
  while (tensor.rank > own_rank && tensor.shape[0] == 1) {
    std::copy(tensor.shape + 1, tensor.shape + tensor.rank, tensor.shape);
    std::copy(tensor.strides + 1, tensor.strides + tensor.rank, tensor.strides);
    --tensor.rank;
  }
  if (tensor.rank != own_rank)
    throw Failure(Exit::data, std::string("--relative: ") + name + ": expected a " +
                                  (own_rank == 2 ? "matrix" : "row") + ", got " + type_text(given));
  return converted(tensor, DType::f64);
}

double product_of(const Tensor& a, int64_t i, const Tensor& b, int64_t j, double& size) {
  double sum = 0;
  for (int64_t c = 0; c < a.dim(1); ++c) {
    sum += at(a, i, c) * at(b, j, c);
    size += std::abs(at(a, i, c) * at(b, j, c));
  }
  return sum;
}

}  // namespace

PlainRelative plain_relative(const RelativePositions& relative, const Tensor& query,
                             const Tensor& key, DType dtype, std::vector<Step>& steps) {
  const int64_t q_len = query.dim(0), k_len = key.dim(0);
  // Queries as they meet `what`.
  const auto shifted = [&](const char* name, const TensorView& bias, const char* now,
                           const char* what) {
    Tensor sum = converted(query, DType::f64);
    if (!bias.defined()) return sum;
    const Tensor row = of_one_head(name, bias, 1);
    for (int64_t i = 0; i < q_len; ++i)
      for (int64_t c = 0; c < sum.dim(1); ++c) at(sum, i, c) += element(row, c);
    sum = converted(converted(sum, dtype), DType::f64);
    steps.push_back({now, std::string("query + ") + name,
                     std::string("Queries as they meet ") + what + ".",
                     converted(sum, DType::f64)});
    return sum;
  };
  PlainRelative plain;
  plain.query = shifted("content_bias", relative.content_bias, "content_query", "keys");
  const Tensor position_query =
      shifted("position_bias", relative.position_bias, "position_query", "rows of distances");

  Tensor key_rows, query_rows, value_rows;
  int64_t distances = 0;
  const auto table = [&](const char* name, const TensorView& view, Tensor& into) {
    if (!view.defined()) return;
    into = of_one_head(name, view, 2);
    check_small(std::string("--relative: ") + name, into);
    distances = into.dim(0);
    steps.push_back({name, "", "A row for each distance.", converted(into, DType::f64)});
  };
  table("key_rows", relative.key_rows, key_rows);
  table("query_rows", relative.query_rows, query_rows);
  table("value_rows", relative.value_rows, value_rows);
  if (distances == 0) return plain;

  Tensor rows(DType::f64, {q_len, k_len});
  const int64_t offset = offset_of(relative.anchor, {.index = {}, .q_len = q_len, .k_len = k_len});
  for (int64_t i = 0; i < q_len; ++i)
    for (int64_t j = 0; j < k_len; ++j)
      at(rows, i, j) = static_cast<double>(relative_row(relative, distances, j - (i + offset)));
  const auto row_of = [&](int64_t i, int64_t j) { return static_cast<int64_t>(at(rows, i, j)); };

  plain.tables = int64_t{key_rows.defined()} + int64_t{query_rows.defined()};
  if (plain.tables > 0) {
    plain.scores = Tensor(DType::f64, {q_len, k_len});
    plain.sizes = Tensor(DType::f64, {q_len, k_len});
    for (int64_t i = 0; i < q_len; ++i) {
      for (int64_t j = 0; j < k_len; ++j) {
        double sum = 0, size = 0;
        if (key_rows.defined()) sum += product_of(position_query, i, key_rows, row_of(i, j), size);
        if (query_rows.defined()) sum += product_of(key, j, query_rows, row_of(i, j), size);
        at(plain.scores, i, j) = sum;
        at(plain.sizes, i, j) = size;
      }
    }
  }
  if (value_rows.defined()) {
    plain.values = Tensor(DType::f64, {q_len * k_len, value_rows.dim(1)});
    for (int64_t i = 0; i < q_len; ++i)
      for (int64_t j = 0; j < k_len; ++j)
        for (int64_t c = 0; c < value_rows.dim(1); ++c)
          at(plain.values, i * k_len + j, c) = at(value_rows, row_of(i, j), c);
  }
  steps.push_back({"distance_rows", "", "Which row of the tables each query (row) and key meet.",
                   std::move(rows)});
  return plain;
}

Tensor weighted(const Tensor& weights, const Tensor& values) {
  const int64_t q_len = weights.dim(0), k_len = weights.dim(1);
  Tensor sums(DType::f64, {q_len, values.dim(1)});
  for (int64_t i = 0; i < q_len; ++i) {
    for (int64_t c = 0; c < values.dim(1); ++c) {
      double sum = 0;
      for (int64_t j = 0; j < k_len; ++j)
        sum += element(weights, i * k_len + j) * at(values, i * k_len + j, c);
      at(sums, i, c) = sum;
    }
  }
  return sums;
}

}  // namespace rapt::cli

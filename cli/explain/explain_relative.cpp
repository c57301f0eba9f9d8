// The terms of relative positions for `rapt explain`, computed pair by pair by plain loops.
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

// A tensor of one head as f64 of rank own_rank: [1, distances, dims] counts as [distances, dims].
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

// The queries that are multiplied by `what`: plus a bias, if there is one; then adds a step.
Tensor shifted(const Tensor& query, const char* name, const TensorView& bias, const char* now,
               const char* what, DType dtype, std::vector<Step>& steps) {
  Tensor sum = f64_copy(query);
  if (!bias.defined()) return sum;
  const Tensor row = of_one_head(name, bias, 1);
  for (int64_t i = 0; i < sum.dim(0); ++i)
    for (int64_t c = 0; c < sum.dim(1); ++c) at(sum, i, c) += element(row, c);
  sum = rounded(sum, dtype);
  steps.push_back({now, std::string("query + ") + name,
                   std::string("Queries as they meet ") + what + ".", f64_copy(sum)});
  return sum;
}

// f64 [distances, dims] each, or absent.
struct Tables {
  Tensor key_rows, query_rows, value_rows;
  int64_t distances = 0;  // 0: no table
};

Tables read_tables(const RelativePositions& relative, std::vector<Step>& steps) {
  Tables tables;
  const auto table = [&](const char* name, const TensorView& view, Tensor& into) {
    if (!view.defined()) return;
    into = of_one_head(name, view, 2);
    check_small(std::string("--relative: ") + name, into);
    tables.distances = into.dim(0);
    steps.push_back({name, "", "A row for each distance.", f64_copy(into)});
  };
  table("key_rows", relative.key_rows, tables.key_rows);
  table("query_rows", relative.query_rows, tables.query_rows);
  table("value_rows", relative.value_rows, tables.value_rows);
  return tables;
}

// The table row of each pair: f64 [q_len, k_len].
Tensor rows_of_pairs(const RelativePositions& relative, int64_t distances, int64_t q_len,
                     int64_t k_len) {
  Tensor rows(DType::f64, {q_len, k_len});
  const int64_t offset = offset_of(relative.anchor, {.index = {}, .q_len = q_len, .k_len = k_len});
  for (int64_t i = 0; i < q_len; ++i)
    for (int64_t j = 0; j < k_len; ++j)
      at(rows, i, j) = static_cast<double>(relative_row(relative, distances, j - (i + offset)));
  return rows;
}

int64_t row_of(const Tensor& rows, int64_t i, int64_t j) {
  return static_cast<int64_t>(at(rows, i, j));
}

void add_scores(const Tables& tables, const Tensor& rows, const Tensor& position_query,
                const Tensor& key, PlainRelative& plain) {
  plain.tables = int64_t{tables.key_rows.defined()} + int64_t{tables.query_rows.defined()};
  if (plain.tables == 0) return;
  plain.scores = Tensor(DType::f64, rows.dims());
  plain.sizes = Tensor(DType::f64, rows.dims());
  for (int64_t i = 0; i < rows.dim(0); ++i) {
    for (int64_t j = 0; j < rows.dim(1); ++j) {
      const int64_t row = row_of(rows, i, j);
      double sum = 0, size = 0;
      if (tables.key_rows.defined())
        sum += product_of(position_query, i, tables.key_rows, row, size);
      if (tables.query_rows.defined()) sum += product_of(key, j, tables.query_rows, row, size);
      at(plain.scores, i, j) = sum;
      at(plain.sizes, i, j) = size;
    }
  }
}

// f64 [q_len k_len, value_dim]: the row that is added to the value of each pair.
Tensor values_of_pairs(const Tensor& value_rows, const Tensor& rows) {
  const int64_t q_len = rows.dim(0), k_len = rows.dim(1);
  Tensor values(DType::f64, {q_len * k_len, value_rows.dim(1)});
  for (int64_t i = 0; i < q_len; ++i)
    for (int64_t j = 0; j < k_len; ++j)
      for (int64_t c = 0; c < value_rows.dim(1); ++c)
        at(values, i * k_len + j, c) = at(value_rows, row_of(rows, i, j), c);
  return values;
}

}  // namespace

PlainRelative plain_relative(const RelativePositions& relative, const Tensor& query,
                             const Tensor& key, DType dtype, std::vector<Step>& steps) {
  PlainRelative plain;
  plain.query =
      shifted(query, "content_bias", relative.content_bias, "content_query", "keys", dtype, steps);
  const Tensor position_query = shifted(query, "position_bias", relative.position_bias,
                                        "position_query", "rows of distances", dtype, steps);
  const Tables tables = read_tables(relative, steps);
  if (tables.distances == 0) return plain;
  Tensor rows = rows_of_pairs(relative, tables.distances, query.dim(0), key.dim(0));
  add_scores(tables, rows, position_query, key, plain);
  if (tables.value_rows.defined()) plain.values = values_of_pairs(tables.value_rows, rows);
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

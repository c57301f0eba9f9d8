#include "cli/compare/metrics/gradient_of_units.h"

#include <cmath>
#include <utility>
#include <vector>

#include "cli/compare/metrics/tensor_rows.h"

namespace rapt::cli {

void add_gradient_of_units(const TensorView& query, const TensorView& d_unit, Tensor& d_query) {
  const Tensor dense = Tensor::copy_of(query);
  TensorRows queries(dense.view()), units(d_unit), sums(std::as_const(d_query).view());
  std::vector<double> sum(static_cast<size_t>(queries.columns()));
  for (int64_t i = 0; i < queries.rows(); ++i) {
    const double *const q = queries.row(i), *const du = units.row(i), *const old = sums.row(i);
    double square = 0, along = 0;
    for (int64_t d = 0; d < queries.columns(); ++d) square += q[d] * q[d], along += q[d] * du[d];
    if (square == 0) continue;
    for (int64_t d = 0; d < queries.columns(); ++d)
      sum[static_cast<size_t>(d)] = old[d] + (du[d] - q[d] * along / square) / std::sqrt(square);
    set_row(d_query, i, sum.data());
  }
}

}  // namespace rapt::cli

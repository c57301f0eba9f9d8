#include "cli/compare/metrics/leak.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "check/tensors/random.h"
#include "cli/compare/metrics/tensor_rows.h"

namespace rapt::cli {
namespace {

constexpr double kTimesLarger = 4;

}  // namespace

Tensor with_other_rows(const TensorView& tensor, int64_t from, uint64_t seed) {
  Tensor copy = Tensor::copy_of(tensor);
  const int64_t length = copy.dim(-2), columns = copy.dim(-1);
  TensorRows rows(copy.view());
  check::Random random(seed);
  std::vector<double> drawn(static_cast<size_t>(columns));
  for (int64_t first = 0; first < rows.rows(); first += length) {
    double square = 0;
    for (int64_t i = from; i < length; ++i) {
      const double* const row = rows.row(first + i);
      for (int64_t d = 0; d < columns; ++d) square += row[d] * row[d];
    }
    const double deviation =
        kTimesLarger * std::sqrt(square / static_cast<double>((length - from) * columns));
    for (int64_t i = from; i < length; ++i) {
      for (double& x : drawn) x = deviation * random.normal();
      set_row(copy, first + i, drawn.data());
    }
  }
  return copy;
}

Leak leak_between(const TensorView& result, const TensorView& other, int64_t from) {
  const int64_t length = result.shape[result.rank - 2];
  TensorRows a(result), b(other);
  const int64_t row_bytes = a.columns() * size_of(result.dtype);
  const char* const bytes = static_cast<const char*>(result.data);
  const char* const other_bytes = static_cast<const char*>(other.data);
  Leak leak;
  for (int64_t i = 0; i < a.rows(); ++i) {
    if (i % length >= from) continue;
    ++leak.of;
    if (std::memcmp(bytes + i * row_bytes, other_bytes + i * row_bytes,
                    static_cast<size_t>(row_bytes)) == 0)
      continue;
    ++leak.rows;
    const double *const x = a.row(i), *const y = b.row(i);
    double difference = 0, square = 0;
    for (int64_t d = 0; d < a.columns(); ++d) {
      difference += (x[d] - y[d]) * (x[d] - y[d]);
      square += x[d] * x[d];
    }
    // Zeros that became -0 changed their bits alone.
    const double change = difference == 0 ? 0 : std::sqrt(difference / square);
    // A NaN on one side alone is as large as a change can be.
    leak.largest =
        std::max(leak.largest, change >= 0 ? change : std::numeric_limits<double>::infinity());
  }
  return leak;
}

}  // namespace rapt::cli

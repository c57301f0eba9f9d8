#include "cli/compare/metrics/leak.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "check/tensors/random.h"
#include "cli/compare/metrics/tensor_rows.h"

namespace rapt::cli {
namespace {

constexpr double kTimesLarger = 4;

template <class E>
E rounded_to(double x) {
  if constexpr (std::is_floating_point_v<E>)
    return static_cast<E>(x);
  else
    return E::from(x);
}

template <class E>
void replace_rows(Tensor& tensor, int64_t from, uint64_t seed) {
  const int64_t rows = tensor.dim(-2), columns = tensor.dim(-1);
  E* const numbers = static_cast<E*>(tensor.data());
  check::Random random(seed);
  const int64_t matrices = tensor.count() / std::max<int64_t>(1, rows * columns);
  for (int64_t m = 0; m < matrices; ++m) {
    E* const first = numbers + (m * rows + from) * columns;
    const int64_t count = (rows - from) * columns;
    double square = 0;
    for (int64_t i = 0; i < count; ++i)
      square += static_cast<double>(first[i]) * static_cast<double>(first[i]);
    const double deviation = kTimesLarger * std::sqrt(square / static_cast<double>(count));
    for (int64_t i = 0; i < count; ++i) first[i] = rounded_to<E>(deviation * random.normal());
  }
}

}  // namespace

Tensor with_other_rows(const TensorView& tensor, int64_t from, uint64_t seed) {
  Tensor copy = Tensor::copy_of(tensor);
  switch (copy.dtype()) {
    case DType::f32:
      replace_rows<float>(copy, from, seed);
      break;
    case DType::f64:
      replace_rows<double>(copy, from, seed);
      break;
    case DType::bf16:
      replace_rows<BFloat16>(copy, from, seed);
      break;
    case DType::f16:
      replace_rows<Float16>(copy, from, seed);
      break;
    default:
      throw Error(ErrorCode::dtype, std::string("expected floats, got ") + name_of(copy.dtype()));
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
    const double change = std::sqrt(difference / square);
    // A NaN on one side alone is as large as a change can be.
    leak.largest =
        std::max(leak.largest, change >= 0 ? change : std::numeric_limits<double>::infinity());
  }
  return leak;
}

}  // namespace rapt::cli

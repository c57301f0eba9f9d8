#include "cli/compare/metrics/tensor_rows.h"

#include <type_traits>

namespace rapt::cli {
namespace {

template <class E>
void widen(const void* data, int64_t first, std::vector<double>& numbers) {
  const E* const from = static_cast<const E*>(data) + first;
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(from[i]);
}

template <class E>
void round_to(void* data, int64_t first, int64_t count, const double* numbers) {
  E* const to = static_cast<E*>(data) + first;
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<E>)
      to[i] = static_cast<E>(numbers[i]);
    else
      to[i] = E::from(numbers[i]);
  }
}

[[noreturn]] void refuse_row_dtype(DType dtype) {
  throw Error(ErrorCode::dtype, std::string("expected floats, got ") + name_of(dtype));
}

}  // namespace

TensorRows::TensorRows(const TensorView& tensor)
    : tensor_(tensor),
      columns_(tensor.shape[tensor.rank - 1]),
      numbers_(static_cast<size_t>(columns_)) {
  if (!tensor.contiguous())
    throw Error(ErrorCode::argument, "expected a dense tensor, got other strides");
  rows_ = columns_ == 0 ? 0 : tensor.count() / columns_;
}

const double* TensorRows::row(int64_t index) {
  const int64_t first = index * columns_;
  switch (tensor_.dtype) {
    case DType::f32:
      widen<float>(tensor_.data, first, numbers_);
      break;
    case DType::f64:
      widen<double>(tensor_.data, first, numbers_);
      break;
    case DType::bf16:
      widen<BFloat16>(tensor_.data, first, numbers_);
      break;
    case DType::f16:
      widen<Float16>(tensor_.data, first, numbers_);
      break;
    default:
      refuse_row_dtype(tensor_.dtype);
  }
  return numbers_.data();
}

void set_row(Tensor& tensor, int64_t index, const double* numbers) {
  const int64_t columns = tensor.dim(-1), first = index * columns;
  switch (tensor.dtype()) {
    case DType::f32:
      return round_to<float>(tensor.data(), first, columns, numbers);
    case DType::f64:
      return round_to<double>(tensor.data(), first, columns, numbers);
    case DType::bf16:
      return round_to<BFloat16>(tensor.data(), first, columns, numbers);
    case DType::f16:
      return round_to<Float16>(tensor.data(), first, columns, numbers);
    default:
      refuse_row_dtype(tensor.dtype());
  }
}

}  // namespace rapt::cli

#include "cli/compare/metrics/tensor_rows.h"

#include <algorithm>

namespace rapt::cli {
namespace {

template <class E>
void widen(const void* data, int64_t first, std::vector<double>& numbers) {
  const E* const from = static_cast<const E*>(data) + first;
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(from[i]);
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
      throw Error(ErrorCode::dtype, std::string("expected floats, got ") + name_of(tensor_.dtype));
  }
  return numbers_.data();
}

}  // namespace rapt::cli

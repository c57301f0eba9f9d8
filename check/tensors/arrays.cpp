#include "check/tensors/arrays.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace check {
namespace {

void* address(const TensorView& view, std::span<const int64_t> index) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * view.strides[i];
  return static_cast<std::byte*>(view.data) + offset * rapt::size_of(view.dtype);
}

int64_t product(Shape shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Dims dims_of(const TensorView& view) { return {view.dims().begin(), view.dims().end()}; }

void set_element_at(void* at, DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      *static_cast<float*>(at) = static_cast<float>(value);
      break;
    case DType::f64:
      *static_cast<double*>(at) = value;
      break;
    case DType::bf16:
      *static_cast<rapt::BFloat16*>(at) = rapt::BFloat16::from(value);
      break;
    case DType::f16:
      *static_cast<rapt::Float16*>(at) = rapt::Float16::from(value);
      break;
    case DType::i64:
      *static_cast<int64_t*>(at) = static_cast<int64_t>(value);
      break;
    case DType::boolean:
      *static_cast<bool*>(at) = value != 0;
      break;
    default:
      throw std::logic_error("not a dtype of the checks");
  }
}

}  // namespace

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

void for_each_index(Shape shape, const std::function<void(std::span<const int64_t>)>& visit) {
  Dims index(shape.size(), 0);
  const int64_t count = product(shape);
  for (int64_t n = 0; n < count; ++n) {
    visit(index);
    for (size_t dim = index.size(); dim > 0 && ++index[dim - 1] == shape[dim - 1];)
      index[--dim] = 0;
  }
}

double get(const TensorView& view, std::span<const int64_t> index) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * view.strides[i];
  return element_at(view, offset);
}

double element_at(const TensorView& view, int64_t offset) {
  switch (view.dtype) {
    case DType::f32:
      return static_cast<const float*>(view.data)[offset];
    case DType::f64:
      return static_cast<const double*>(view.data)[offset];
    case DType::bf16:
      return static_cast<const rapt::BFloat16*>(view.data)[offset];
    case DType::f16:
      return static_cast<const rapt::Float16*>(view.data)[offset];
    case DType::i64:
      return static_cast<double>(static_cast<const int64_t*>(view.data)[offset]);
    case DType::boolean:
      return static_cast<const bool*>(view.data)[offset] ? 1 : 0;
    default:
      throw std::logic_error("not a dtype of the checks");
  }
}

void set(const TensorView& view, std::span<const int64_t> index, double value) {
  set_element_at(address(view, index), view.dtype, value);
}

Tensor filled(DType dtype, const Dims& dims, double value) {
  Tensor tensor(dtype, dims);
  for_each_index(dims, [&](auto index) { set(tensor, index, value); });
  return tensor;
}

Tensor random_normal(Random& random, DType dtype, const Dims& dims, double magnitude) {
  Tensor tensor(dtype, dims);
  const TensorView view = tensor;
  auto* const elements = static_cast<std::byte*>(view.data);
  for (int64_t i = 0; i < view.count(); ++i)
    set_element_at(elements + i * rapt::size_of(dtype), dtype, magnitude * random.normal());
  return tensor;
}

Tensor mapped(const TensorView& view,
              const std::function<double(double, std::span<const int64_t>)>& change) {
  Tensor tensor(view.dtype, view.dims());
  for_each_index(view.dims(),
                 [&](auto index) { set(tensor, index, change(get(view, index), index)); });
  return tensor;
}

Tensor taken(const TensorView& view, int dim, std::span<const int64_t> indices) {
  const auto d = static_cast<size_t>(dim < 0 ? dim + view.rank : dim);
  Dims dims = dims_of(view);
  dims[d] = static_cast<int64_t>(indices.size());
  Tensor tensor(view.dtype, dims);
  for_each_index(dims, [&](auto index) {
    Dims from(index.begin(), index.end());
    from[d] = indices[static_cast<size_t>(from[d])];
    std::memcpy(address(tensor, index), address(view, from),
                static_cast<size_t>(rapt::size_of(view.dtype)));
  });
  return tensor;
}

Tensor concatenated(const TensorView& a, const TensorView& b, int dim) {
  const auto d = static_cast<size_t>(dim < 0 ? dim + a.rank : dim);
  Dims dims = dims_of(a);
  dims[d] += b.shape[d];
  Tensor tensor(a.dtype, dims);
  for_each_index(dims, [&](auto index) {
    Dims from(index.begin(), index.end());
    const bool first = from[d] < a.shape[d];
    if (!first) from[d] -= a.shape[d];
    std::memcpy(address(tensor, index), address(first ? a : b, from),
                static_cast<size_t>(rapt::size_of(a.dtype)));
  });
  return tensor;
}

Strided::Strided(const TensorView& values, Layout layout) {
  if (!values.defined()) return;
  const auto rank = static_cast<size_t>(values.rank);
  // The order of the dimensions in memory, outermost first.
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  if (layout == Layout::transposed && rank >= 2) std::swap(order[rank - 1], order[rank - 2]);
  if (layout == Layout::interleaved && rank >= 3) std::swap(order[rank - 2], order[rank - 3]);
  int64_t stride = layout == Layout::strided ? 2 + values.rank % 2 : 1;
  Dims strides(rank);
  for (size_t i = rank; i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(values.shape[order[i]], 1);
    if (layout == Layout::padded && i + 1 == rank) stride += 3;
  }
  const int64_t size = rapt::size_of(values.dtype);
  // All bits set is NaN for floats, so that reading a gap shows in the results.
  memory_ = std::shared_ptr<std::byte[]>(new std::byte[static_cast<size_t>((stride + 1) * size)]);
  std::memset(memory_.get(), 0xff, static_cast<size_t>((stride + 1) * size));
  std::byte* base = memory_.get();
  if (layout == Layout::negative) {
    for (size_t i = 0; i < rank; ++i) {
      if (values.shape[i] > 1) base += (values.shape[i] - 1) * strides[i] * size;
      strides[i] = -strides[i];
    }
  }
  view_ = TensorView(base, values.dtype, values.dims(), strides, true);
  if (layout == Layout::dense && values.contiguous() && !values.empty()) {
    std::memcpy(base, values.data, static_cast<size_t>(values.count() * size));
    return;
  }
  for_each_index(values.dims(), [&](auto index) {
    std::memcpy(address(view_, index), address(values, index), static_cast<size_t>(size));
  });
}

std::vector<double> values_of(const TensorView& view) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(view.count()));
  for_each_index(view.dims(), [&](auto index) { values.push_back(get(view, index)); });
  return values;
}

std::optional<std::string> difference_of_bits(const TensorView& got, const TensorView& expected) {
  if (got.dtype != expected.dtype || !std::ranges::equal(got.dims(), expected.dims()))
    return std::string(rapt::name_of(got.dtype)) + " " + rapt::to_string(got.dims()) +
           " instead of " + rapt::name_of(expected.dtype) + " " + rapt::to_string(expected.dims());
  std::optional<std::string> difference;
  for_each_index(got.dims(), [&](auto index) {
    if (difference || std::memcmp(address(got, index), address(expected, index),
                                  static_cast<size_t>(rapt::size_of(got.dtype))) == 0)
      return;
    const double a = get(got, index), b = get(expected, index);
    std::ostringstream text;
    text.precision(17);
    text << "bits differ at " << rapt::to_string(index) << ": " << a << " instead of " << b
         << ", a difference of " << a - b;
    difference = text.str();
  });
  return difference;
}

}  // namespace check

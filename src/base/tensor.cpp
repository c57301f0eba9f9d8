// TensorView and Tensor.
#include "rapt/tensor.h"

#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/huge_pages.h"

namespace rapt {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, a zmm register

void check_rank(const TensorView& view) {
  if (view.rank > kMaxRank)
    throw Error(ErrorCode::shape, "a tensor of rank " + std::to_string(view.rank) +
                                      "; the largest rank is " + std::to_string(kMaxRank));
}

int resolve(const TensorView& view, int dim) {
  check_rank(view);
  const int d = dim < 0 ? dim + view.rank : dim;
  if (d < 0 || d >= view.rank)
    throw Error(ErrorCode::shape, "dimension " + std::to_string(dim) + " of a tensor of shape " +
                                      to_string(view.dims()) + " does not exist");
  return d;
}

void copy_elements(const TensorView& from, int dim, const char* source, char*& target) {
  const int64_t size = size_of(from.dtype);
  if (dim == from.rank) {
    std::memcpy(target, source, static_cast<size_t>(size));
    target += size;
    return;
  }
  for (int64_t i = 0; i < from.shape[dim]; ++i)
    copy_elements(from, dim + 1, source + i * from.strides[dim] * size, target);
}

}  // namespace

const char* name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "bool";
  }
  return "unknown";
}

std::string to_string(Shape shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

int64_t element_count(Shape shape) {
  // A factor of 16 leaves room for the largest element size in byte arithmetic.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 16;
  int64_t count = 1;
  bool empty = false, overflow = false;
  for (const int64_t n : shape) {
    if (n < 0)
      throw Error(ErrorCode::shape, "shape " + to_string(shape) + " has a negative length");
    empty |= n == 0;
    overflow |= __builtin_mul_overflow(count, n, &count) || count > kMost;
  }
  if (empty) return 0;
  if (overflow)
    throw Error(ErrorCode::overflow,
                "a tensor of shape " + to_string(shape) + " has too many elements for 64 bits");
  return count;
}

TensorView::TensorView(void* memory, DType element, Shape lengths, Shape steps, bool is_read_only)
    : data(memory), dtype(element), read_only(is_read_only) {
  if (lengths.size() > kMaxRank)
    throw Error(ErrorCode::shape, "a tensor of rank " + std::to_string(lengths.size()) +
                                      "; the largest rank is " + std::to_string(kMaxRank));
  if (steps.size() != lengths.size())
    throw Error(ErrorCode::shape, "a tensor of shape " + to_string(lengths) + " with " +
                                      std::to_string(steps.size()) + " strides");
  element_count(lengths);
  rank = static_cast<int>(lengths.size());
  for (int i = 0; i < rank; ++i) shape[i] = lengths[i], strides[i] = steps[i];
}

TensorView::TensorView(void* memory, DType element, Shape lengths, bool is_read_only)
    : data(memory), dtype(element), read_only(is_read_only) {
  if (lengths.size() > kMaxRank)
    throw Error(ErrorCode::shape, "a tensor of rank " + std::to_string(lengths.size()) +
                                      "; the largest rank is " + std::to_string(kMaxRank));
  const bool empty = element_count(lengths) == 0;
  rank = static_cast<int>(lengths.size());
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    shape[i] = lengths[i];
    strides[i] = step;
    if (!empty) step *= lengths[i];  // an empty tensor's other lengths may not fit 64 bits together
  }
}

bool TensorView::contiguous() const noexcept {
  if (rank > kMaxRank) return false;  // no tensor at all
  int64_t step = 1;
  for (int i = 0; i < rank; ++i)
    if (shape[i] == 0) return true;
  for (int i = rank - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

TensorView TensorView::transposed(int a, int b) const {
  const int x = resolve(*this, a), y = resolve(*this, b);
  TensorView view = *this;
  std::swap(view.shape[x], view.shape[y]);
  std::swap(view.strides[x], view.strides[y]);
  return view;
}

TensorView TensorView::slice(int dim, int64_t begin, int64_t end) const {
  const int d = resolve(*this, dim);
  if (begin < 0 || end < begin || end > shape[d])
    throw Error(ErrorCode::shape, "slice [" + std::to_string(begin) + ", " + std::to_string(end) +
                                      ") of dimension " + std::to_string(dim) + " of shape " +
                                      to_string(dims()) + " is out of range");
  TensorView view = *this;
  view.shape[d] = end - begin;
  if (view.data) view.data = static_cast<char*>(data) + begin * strides[d] * size_of(dtype);
  return view;
}

void Tensor::Free::operator()(void* p) const noexcept {
  ::operator delete (p, std::align_val_t{kAlignment});
}

Tensor::Tensor(DType dtype, Shape shape) : view_(nullptr, dtype, shape, false) {
  const int64_t bytes = element_count(shape) * size_of(dtype);
  const auto size = static_cast<size_t>(bytes);
  if (size > 0) memory_.reset(::operator new (size, std::align_val_t{kAlignment}));
  if (size >= kLeastHugeBytes) advise_huge_pages(memory_.get(), size);
  view_.data = memory_.get();
}

Tensor::Tensor(Tensor&& other) noexcept
    : memory_(std::move(other.memory_)), view_(std::exchange(other.view_, {})) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  memory_ = std::move(other.memory_);
  view_ = std::exchange(other.view_, {});
  return *this;
}

TensorView Tensor::view() const {
  TensorView view = view_;
  view.read_only = true;
  return view;
}

int64_t Tensor::dim(int i) const { return view_.shape[resolve(view_, i)]; }

Tensor Tensor::copy_of(const TensorView& view) {
  if (!view.defined()) throw Error(ErrorCode::argument, "copy_of: there is no tensor to copy");
  check_rank(view);
  if (view.count() > 0 && !view.data)
    throw Error(ErrorCode::argument, "copy_of: a tensor of shape " + to_string(view.dims()) +
                                         " has elements but a null data pointer");
  Tensor copy(view.dtype, view.dims());
  if (copy.count() == 0) return copy;
  if (view.contiguous()) {
    std::memcpy(copy.view_.data, view.data,
                static_cast<size_t>(copy.count() * size_of(view.dtype)));
  } else {
    char* target = static_cast<char*>(copy.view_.data);
    copy_elements(view, 0, static_cast<const char*>(view.data), target);
  }
  return copy;
}

void Tensor::require(DType dtype) const {
  if (view_.dtype != dtype)
    throw Error(ErrorCode::dtype, std::string("the tensor holds ") + name_of(view_.dtype) +
                                      ", not " + name_of(dtype));
}

}  // namespace rapt

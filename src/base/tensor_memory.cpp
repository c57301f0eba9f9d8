#include "base/tensor_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/check_argument.h"

namespace rapt {

void fail_rank(const char* name, int rank) {
  throw Error(ErrorCode::shape,
              std::string(name) + " has rank " + std::to_string(rank) + "; the largest rank is " +
                  std::to_string(kMaxRank),
              name);
}

std::string described(const char* name, const TensorView& view) {
  return std::string(name) + " " + to_string(view.dims());
}

namespace {

// The extent of a view whose reach in bytes overflows: none if it is empty.
[[gnu::cold]] Bytes overflowing_extent(const char* name, const TensorView& view) {
  if (view.empty()) return {};
  check_argument(name, [&] { element_count(view.dims()); });  // throws for the lengths alone
  throw Error(ErrorCode::overflow,
              described(name, view) + ": its strides reach beyond 64-bit addresses", name);
}

}  // namespace

Bytes extent_of(const char* name, const TensorView& view) {
  check_rank(name, view);
  if (!view.defined()) return {};
  int64_t low = 0, high = 0, count = 16;  // low, high: in bytes; count: of 16-byte elements
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 0) return {};
    int64_t span;
    if (__builtin_mul_overflow(count, view.shape[i], &count) ||
        __builtin_mul_overflow(view.shape[i] - 1, view.strides[i], &span) ||
        (span < 0 ? __builtin_add_overflow(low, span, &low)
                  : __builtin_add_overflow(high, span, &high)))
      return overflowing_extent(name, view);
  }
  const int64_t size = size_of(view.dtype);
  int64_t bytes;  // from the one end to the other
  if (__builtin_mul_overflow(low, size, &low) || __builtin_mul_overflow(high, size, &high) ||
      __builtin_sub_overflow(high, low, &bytes))
    return overflowing_extent(name, view);
  if (!view.data) return {};
  const auto at = reinterpret_cast<uintptr_t>(view.data);
  return {at + static_cast<uintptr_t>(low), at + static_cast<uintptr_t>(high + size)};
}

void check_alignment(const char* name, const TensorView& view) {
  const auto address = reinterpret_cast<uintptr_t>(view.data);
  if (address % sizeof(double) == 0) return;  // no element is larger
  if ((address & static_cast<uintptr_t>(size_of(view.dtype) - 1)) != 0 && !view.empty())
    throw Error(ErrorCode::argument,
                described(name, view) + " is not aligned to its elements of " +
                    std::to_string(size_of(view.dtype)) + " bytes; copy it to memory that is",
                name);
}

Bytes check_output_tensor(const char* name, const TensorView& view, Shape expected, DType dtype) {
  bool fits = view.rank == static_cast<int>(expected.size());
  for (int i = 0; fits && i < view.rank; ++i)
    fits = view.shape[i] == expected[static_cast<size_t>(i)];
  if (!fits)
    throw Error(ErrorCode::shape, described(name, view) + "; expected " + to_string(expected),
                name);
  if (view.dtype != dtype)
    throw Error(
        ErrorCode::dtype,
        described(name, view) + " is " + name_of(view.dtype) + "; expected " + name_of(dtype),
        name);
  if (view.read_only)
    throw Error(ErrorCode::argument, described(name, view) + " is read-only", name);
  if (!view.empty() && !view.data)
    throw Error(ErrorCode::argument,
                described(name, view) + " has elements but a null data pointer", name);
  const Bytes bytes = extent_of(name, view);
  check_alignment(name, view);
  if (!view.contiguous() && overlaps_itself(view))
    throw Error(ErrorCode::overlap,
                described(name, view) + ": two of its elements may share memory (strides)", name);
  return bytes;
}

// Sorted by stride, each stride must pass over all that the smaller ones reach.
bool overlaps_itself(const TensorView& view) {
  if (view.empty()) return false;
  int order[kMaxRank], rank = 0;
  for (int i = 0; i < view.rank; ++i)
    if (view.shape[i] > 1) order[rank++] = i;
  const auto stride = [&](int i) {
    return view.strides[i] < 0 ? -view.strides[i] : view.strides[i];
  };
  std::sort(order, order + rank, [&](int a, int b) { return stride(a) < stride(b); });
  int64_t reach = 0;
  for (int i = 0; i < rank; ++i) {
    if (stride(order[i]) <= reach) return true;
    reach += (view.shape[order[i]] - 1) * stride(order[i]);
  }
  return false;
}

namespace {

// The bytes that a view reaches within every `period` bytes of memory: `length` of them from
// address `begin` on, the address counted modulo the period. A step by a multiple of the period
// does not change the place.
struct PlaceInPeriod {
  int64_t begin, length;
};
PlaceInPeriod place_in_period(const TensorView& view, int64_t period) {
  const int64_t size = size_of(view.dtype);
  int64_t low = 0, high = 0;
  for (int i = 0; i < view.rank; ++i) {
    const int64_t span = (view.shape[i] - 1) * view.strides[i] * size;
    if (view.shape[i] == 1 || view.strides[i] * size % period == 0) continue;
    (span < 0 ? low : high) += span;
  }
  const auto at =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(period));
  return {((at + low) % period + period) % period, high - low + size};
}

}  // namespace

bool take_turns(const TensorView& a, const TensorView& b) {
  for (int i = 0; i < a.rank; ++i) {
    if (a.shape[i] == 1 || a.strides[i] == 0) continue;
    const int64_t period = std::abs(a.strides[i] * size_of(a.dtype));
    if (period > INT64_MAX / 4) continue;  // sums below would overflow
    const PlaceInPeriod of_a = place_in_period(a, period), of_b = place_in_period(b, period);
    const int64_t to_b = (of_b.begin - of_a.begin + period) % period;
    const int64_t to_a = (of_a.begin - of_b.begin + period) % period;
    if (to_b >= of_a.length && to_a >= of_b.length) return true;
  }
  return false;
}

bool overlap(const TensorView& a, const TensorView& b) {
  return extent_of("tensor", a).meets(extent_of("tensor", b));
}

namespace {

// The elements from `at` on. The dimensions from `dense` on are `bytes` without a gap.
void set_dims_to_zero(const TensorView& view, int dim, int dense, size_t bytes,
                      std::byte* at) noexcept {
  if (dim == dense) {
    std::memset(at, 0, bytes);
    return;
  }
  const int64_t step = view.strides[dim] * size_of(view.dtype);
  for (int64_t i = 0; i < view.shape[dim]; ++i)
    set_dims_to_zero(view, dim + 1, dense, bytes, at + i * step);
}

}  // namespace

void set_to_zero(const TensorView& view) noexcept {
  if (view.empty()) return;
  const int64_t size = size_of(view.dtype);
  int64_t count = 1;
  int dense = view.rank;
  while (dense > 0 && (view.shape[dense - 1] == 1 || view.strides[dense - 1] == count))
    count *= view.shape[--dense];
  set_dims_to_zero(view, 0, dense, static_cast<size_t>(count * size),
                   static_cast<std::byte*>(view.data));
}

}  // namespace rapt

#include "nn/training/convert.h"

#include <cstring>
#include <type_traits>

namespace rapt::nn {
namespace {

// Rows along the last dimension: the strides of `from` and of `to`.
struct RowSteps {
  int64_t count, from, to;
};
using ConvertRow = void (*)(const std::byte* from, std::byte* to, const RowSteps& row);

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>) {
    if constexpr (std::is_same_v<From, double>)
      return To::from(x);
    else
      return To::from(static_cast<float>(x));  // exact
  } else if constexpr (std::is_same_v<From, double>)
    return static_cast<To>(x);
  else
    return static_cast<float>(x);
}

template <class From, class To>
void convert_row(const std::byte* from, std::byte* to, const RowSteps& row) {
  const auto* source = reinterpret_cast<const From*>(from);
  auto* target = reinterpret_cast<To*>(to);
  if (row.from == 1 && row.to == 1)  // a loop that compilers vectorise
    for (int64_t i = 0; i < row.count; ++i) target[i] = converted<To>(source[i]);
  else
    for (int64_t i = 0; i < row.count; ++i)
      target[i * row.to] = converted<To>(source[i * row.from]);
}

// Equal dtypes: bytes, so that a NaN keeps its payload.
template <size_t Size>
void copy_row(const std::byte* from, std::byte* to, const RowSteps& row) {
  if (from == to) return;
  if (row.from == 1 && row.to == 1)
    std::memcpy(to, from, static_cast<size_t>(row.count) * Size);
  else
    for (int64_t i = 0; i < row.count; ++i)
      std::memcpy(to + i * row.to * static_cast<int64_t>(Size),
                  from + i * row.from * static_cast<int64_t>(Size), Size);
}

template <class From>
ConvertRow row_conversion(DType to) {
  switch (to) {
    case DType::f32:
      return convert_row<From, float>;
    case DType::f64:
      return convert_row<From, double>;
    case DType::bf16:
      return convert_row<From, BFloat16>;
    default:
      return convert_row<From, Float16>;
  }
}

ConvertRow row_conversion(DType from, DType to) {
  if (from == to) {
    const int64_t size = size_of(from);
    return size == 8   ? copy_row<8>
           : size == 4 ? copy_row<4>
           : size == 2 ? copy_row<2>
                       : copy_row<1>;
  }
  switch (from) {
    case DType::f32:
      return row_conversion<float>(to);
    case DType::f64:
      return row_conversion<double>(to);
    case DType::bf16:
      return row_conversion<BFloat16>(to);
    default:
      return row_conversion<Float16>(to);
  }
}

void convert_from(const TensorView& from, const TensorView& to, int dim, ConvertRow row,
                  const std::byte* source, std::byte* target) {
  if (dim >= from.rank - 1) {
    const bool scalar = from.rank == 0;
    row(source, target,
        scalar ? RowSteps{1, 1, 1} : RowSteps{from.shape[dim], from.strides[dim], to.strides[dim]});
    return;
  }
  for (int64_t i = 0; i < from.shape[dim]; ++i)
    convert_from(from, to, dim + 1, row, source + i * from.strides[dim] * size_of(from.dtype),
                 target + i * to.strides[dim] * size_of(to.dtype));
}

}  // namespace

void convert(const TensorView& from, const TensorView& to) {
  if (from.empty()) return;
  convert_from(from, to, 0, row_conversion(from.dtype, to.dtype),
               static_cast<const std::byte*>(from.data), static_cast<std::byte*>(to.data));
}

}  // namespace rapt::nn

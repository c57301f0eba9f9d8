#pragma once
// Numbers as text from any bytes: an Error, or one tensor that survives writing and reading. No
// allocation is larger than the input allows.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "largest_allocation.h"
#include "rapt/io/number_text.h"

namespace rapt::fuzz {

using OpenText = TensorFile (*)(const std::shared_ptr<const InputFile>&);
using WriteText = void (*)(const WriteBytes&, const TensorView&);

inline void require(bool condition) {
  if (!condition) std::abort();
}

inline Tensor tensor_of(OpenText open, std::vector<std::byte> bytes) {
  const TensorFile file = open(std::make_shared<InputFile>("fuzz", std::move(bytes)));
  require(file.tensors.size() == 1);
  return Tensor::copy_of(load(file.tensors[0]).view());
}

// Whether all elements are equal; all NaN count as equal, because text keeps neither sign nor
// payload.
inline bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !std::ranges::equal(a.dims(), b.dims())) return false;
  const auto bytes = static_cast<size_t>(a.count() * size_of(a.dtype()));
  if (a.dtype() != DType::f64) return bytes == 0 || std::memcmp(a.data(), b.data(), bytes) == 0;
  return std::ranges::equal(a.values<double>(), b.values<double>(), [](double x, double y) {
    return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
  });
}

inline void try_number_text(OpenText open, WriteText write, const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  Tensor tensor;
  begin_watching();
  try {
    tensor = tensor_of(open, {begin, begin + size});
  } catch (const Error&) {
    require(largest_allocation <= 4096 + 8 * size);
    return;
  }
  // Room for 8 bytes per digit and separator, in a vector that doubles.
  require(largest_allocation <= 4096 + 8 * size);
  require(size == 0 ||
          std::memchr(data, 0, size) == nullptr);  // no zero byte, which ends text for some readers
  std::vector<std::byte> text;
  write(
      [&](const void* bytes, int64_t count) {
        const auto* first = static_cast<const std::byte*>(bytes);
        text.insert(text.end(), first, first + count);
      },
      tensor.view());
  require(same(tensor, tensor_of(open, std::move(text))));
}

}  // namespace rapt::fuzz

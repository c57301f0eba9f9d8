#pragma once
// Tensors with offsets beyond 32 bits, in memory that is reserved but hardly filled.
#include <span>

#include "check/tensors/random.h"
#include "hostile/reserved.h"

namespace laws {

// Rows [5, 9] of f32, 2^30 elements apart: the last one at 5 * 2^32 bytes. Several tensors fit
// between each other.
inline constexpr size_t kFarRowsBytes = size_t{6} << 32;
inline check::TensorView far_rows(const Reserved& memory, int64_t offset = 0) {
  const check::Dims dims{5, 9}, strides{int64_t{1} << 30, 1};
  return check::TensorView(static_cast<float*>(memory.data()) + offset, check::DType::f32, dims,
                           strides, false);
}
// The same rows side by side.
inline check::Tensor random_rows(check::Random& random) {
  return check::random_normal(random, check::DType::f32, check::Dims{5, 9});
}

// A boolean mask of more than 2^31 elements. The pairs (query, key) of `allowed` are true.
class HugeMask {
 public:
  static constexpr int64_t kLen = 50000;  // kLen^2 > 2^31

  explicit HugeMask(std::span<const check::Dims> allowed)
      : memory_(static_cast<size_t>(kLen * kLen)) {
    if (available())
      for (const check::Dims& pair : allowed) check::set(all(), pair, 1);
  }
  bool available() const { return memory_.available(); }
  check::TensorView last_rows(int64_t count) const { return all().slice(0, kLen - count, kLen); }

 private:
  check::TensorView all() const {
    const check::Dims dims{kLen, kLen};
    return check::TensorView(memory_.data(), check::DType::boolean, dims, false);
  }

  Reserved memory_;
};

}  // namespace laws

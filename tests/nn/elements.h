#pragma once
// Elements of tensors of any floating-point type as f64.
#include <algorithm>
#include <cmath>
#include <vector>

#include "rapt/tensor.h"

namespace nn_tests {

inline std::vector<double> values_of(const rapt::Tensor& t) {
  std::vector<double> values;
  const auto append = [&]<class T>(std::span<const T> from) {
    for (const T& x : from) {
      if constexpr (sizeof(T) == 2)
        values.push_back(static_cast<float>(x));
      else
        values.push_back(static_cast<double>(x));
    }
  };
  switch (t.dtype()) {
    case rapt::DType::f32:
      append(t.values<float>());
      break;
    case rapt::DType::f64:
      append(t.values<double>());
      break;
    case rapt::DType::bf16:
      append(t.values<rapt::BFloat16>());
      break;
    default:
      append(t.values<rapt::Float16>());
      break;
  }
  return values;
}

// The same elements in f64.
inline rapt::Tensor in_f64(const rapt::Tensor& t) {
  rapt::Tensor result(rapt::DType::f64, t.dims());
  const std::vector<double> values = values_of(t);
  std::copy(values.begin(), values.end(), result.values<double>().begin());
  return result;
}

// The largest difference over the largest element of `expected`; infinite for a NaN.
inline double difference(const rapt::Tensor& got, const rapt::Tensor& expected) {
  const std::vector<double> a = values_of(got), b = values_of(expected);
  double largest = 1e-300, apart = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    if (!(std::abs(a[i] - b[i]) <= apart)) apart = std::abs(a[i] - b[i]);
  }
  return apart != apart ? INFINITY : apart / largest;
}

// The largest relative error of storing a number; 2^-24 also for f64.
inline double rounding_of(rapt::DType dtype) {
  return dtype == rapt::DType::bf16 ? 0x1p-8 : dtype == rapt::DType::f16 ? 0x1p-11 : 0x1p-24;
}

inline rapt::Tensor integers(std::vector<int64_t> shape, std::vector<int64_t> values) {
  rapt::Tensor t(rapt::DType::i64, rapt::Shape(shape));
  std::copy(values.begin(), values.end(), t.values<int64_t>().begin());
  return t;
}

// Numbers in [0, count), the same on every machine.
inline rapt::Tensor drawn_tokens(std::vector<int64_t> shape, int64_t count, uint64_t seed) {
  rapt::Tensor t(rapt::DType::i64, rapt::Shape(shape));
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (int64_t& token : t.values<int64_t>()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    token = static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(count));
  }
  return t;
}

}  // namespace nn_tests

#pragma once
// Tensors with numbers, their C descriptors, and bitwise comparisons.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "rapt/rapt_c.h"
#include "rapt/tensor.h"

using rapt::DType;
using rapt::Tensor;
using rapt::TensorView;

inline rapt_dtype c_dtype(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return RAPT_F32;
    case DType::f64:
      return RAPT_F64;
    case DType::bf16:
      return RAPT_BF16;
    case DType::f16:
      return RAPT_F16;
    case DType::i64:
      return RAPT_I64;
    case DType::i32:
      return RAPT_I32;
    case DType::u8:
      return RAPT_U8;
    case DType::boolean:
      return RAPT_BOOL;
  }
  return 0;
}

// A descriptor of the same memory. Its shape is kept until the process ends.
inline rapt_tensor c_view(const TensorView& of) {
  static std::deque<TensorView> kept;
  const TensorView& view = kept.emplace_back(of);
  rapt_tensor t = {};
  t.size = sizeof t;
  t.data = view.data;
  t.dtype = c_dtype(view.dtype);
  t.device = RAPT_CPU;
  t.read_only = view.read_only;
  t.rank = view.rank;
  t.shape = view.shape;
  t.strides = view.strides;
  return t;
}

// Numbers in [-1, 1) that vary from element to element.
inline Tensor numbers(DType dtype, rapt::Shape shape, uint64_t seed) {
  Tensor t(dtype, shape);
  for (size_t i = 0; i < static_cast<size_t>(t.count()); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const double x = static_cast<double>(seed >> 11) * 0x1p-52 - 1;
    if (dtype == DType::f64)
      t.values<double>()[i] = x;
    else if (dtype == DType::f32)
      t.values<float>()[i] = static_cast<float>(x);
    else if (dtype == DType::bf16)
      t.values<rapt::BFloat16>()[i] = rapt::BFloat16::from(x);
    else
      t.values<rapt::Float16>()[i] = rapt::Float16::from(x);
  }
  return t;
}
inline Tensor numbers(DType dtype, std::initializer_list<int64_t> shape, uint64_t seed) {
  return numbers(dtype, rapt::Shape(shape.begin(), shape.size()), seed);
}
inline Tensor integers(std::initializer_list<int64_t> values) {
  Tensor t(DType::i64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.values<int64_t>().begin());
  return t;
}

inline rapt_options no_options() {
  rapt_options options = {};
  options.size = sizeof options;
  return options;
}

inline void expect_same_bits(const Tensor& a, const Tensor& b, const char* what) {
  ASSERT_TRUE(std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end()));
  const auto bytes = static_cast<size_t>(a.count() * rapt::size_of(a.dtype()));
  EXPECT_EQ(std::memcmp(a.view().data, b.view().data, bytes), 0) << what;
}

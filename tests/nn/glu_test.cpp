#include "rapt/nn/glu.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;

TEST(GluTest, IsItsFormula) {
  for (const int64_t features : {1, 7, 16, 33}) {
    const Tensor x = normal(DType::f64, {3, 2 * features}, 1, 3);
    Tensor y(DType::f64, {3, features});
    Counted()([&](nn::Arena&, const nn::Run& run) { nn::glu(x, y, run); });
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t i = 0; i < features; ++i) {
        const double a = x.values<double>()[static_cast<size_t>(2 * r * features + i)];
        const double b = x.values<double>()[static_cast<size_t>((2 * r + 1) * features + i)];
        const double found = y.values<double>()[static_cast<size_t>(r * features + i)];
        EXPECT_NEAR(found, a / (1 + std::exp(-b)), 1e-15 * (1 + std::abs(a)));
      }
  }
}

TEST(GluTest, GradientsAreCentralDifferences) {
  for (const int64_t features : {1, 5, 16, 19}) {
    Tensor x = normal(DType::f64, {2, 3, 2 * features}, 2);
    const Tensor d_y = normal(DType::f64, {2, 3, features}, 3);
    Tensor y(DType::f64, {2, 3, features}), d_x(DType::f64, {2, 3, 2 * features});
    const auto loss = [&] {
      Counted()([&](nn::Arena&, const nn::Run& run) { nn::glu(x, y, run); });
      return dot(y, d_y);
    };
    Counted()([&](nn::Arena&, const nn::Run& run) { nn::glu_gradient(x, d_y, d_x, run); });
    expect_gradients({{"x", &x, &d_x}}, loss);
    // In place.
    Tensor in_place = Tensor::copy_of(x);
    Counted()(
        [&](nn::Arena&, const nn::Run& run) { nn::glu_gradient(in_place, d_y, in_place, run); });
    EXPECT_EQ(dot(in_place, in_place), dot(d_x, d_x));
  }
}

TEST(GluTest, SixteenBitsAreRoundedOnce) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x = normal(dtype, {4, 26}, 4);
    Tensor y(dtype, {4, 13}), expected(dtype, {4, 13});
    Tensor wide(DType::f32, {4, 26}), wide_y(DType::f32, {4, 13});
    const auto number = [&](const Tensor& t, size_t i) {
      return dtype == DType::bf16 ? float(t.values<BFloat16>()[i]) : float(t.values<Float16>()[i]);
    };
    for (size_t i = 0; i < 104; ++i) wide.values<float>()[i] = number(x, i);
    Counted()([&](nn::Arena&, const nn::Run& run) {
      nn::glu(x, y, run);
      nn::glu(wide, wide_y, run);
    });
    for (size_t i = 0; i < 52; ++i) {
      const float w = wide_y.values<float>()[i];
      EXPECT_EQ(number(y, i),
                dtype == DType::bf16 ? float(BFloat16::from(w)) : float(Float16::from(w)));
    }
  }
}

TEST(GluTest, HasTheSameBitsForAnyThreads) {
  const Tensor x = normal(DType::f32, {700, 2, 514}, 5), d_y = normal(DType::f32, {700, 2, 257}, 6);
  expect_same_bits([&](const Context& context) {
    std::vector<Tensor> results;
    results.emplace_back(DType::f32, std::initializer_list<int64_t>{700, 2, 257});
    results.emplace_back(DType::f32, std::initializer_list<int64_t>{700, 2, 514});
    Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
      nn::glu(x, results[0], run);
      nn::glu_gradient(x, d_y, results[1], run);
    });
    return results;
  });
}

TEST(GluTest, RejectsWhatDoesNotFit) {
  Tensor x(DType::f32, {2, 6}), y(DType::f32, {2, 3}), odd(DType::f32, {2, 5});
  Tensor wrong(DType::f64, {2, 3}), empty(DType::f32, {0, 6}), no_rows(DType::f32, {0, 3});
  std::vector<std::byte> memory(64);
  nn::Arena arena{memory};
  const nn::Run run{.scratch = arena, .context = {}};
  laws::expect_error(ErrorCode::shape, {"x", "2 features"}, [&] { nn::glu(odd, y, run); });
  laws::expect_error(ErrorCode::shape, {"y"}, [&] { nn::glu(x, odd, run); });
  laws::expect_error(ErrorCode::dtype, {"y"}, [&] { nn::glu(x, wrong, run); });
  laws::expect_error(ErrorCode::argument, {"missing"}, [&] { nn::glu({}, y, run); });
  laws::expect_error(ErrorCode::overlap, {"y", "x"}, [&] {
    nn::glu(x, TensorView(x.values<float>().data(), {2, 3}), run);
  });
  laws::expect_error(ErrorCode::overlap, {"d_x"}, [&] {
    nn::glu_gradient(x, TensorView(y.values<float>().data(), {2, 3}),
                     TensorView(y.values<float>().data(), {2, 6}), run);
  });
  nn::glu(empty, no_rows, run);
  nn::glu_gradient(empty, no_rows, empty, run);
}

}  // namespace

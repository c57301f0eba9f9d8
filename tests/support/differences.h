#pragma once
// Gradients by finite differences, for functions of f64 numbers that they read in place.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "support/call.h"

namespace laws {

// The derivative of f() with respect to x, which f reads, from two points near x. Also works if the
// slope of f jumps nearby. The error is step^2 / 6 times the third derivative, plus the rounding of
// f divided by the step.
template <class Function>
double central_difference(double& x, double step, const Function& f) {
  const double at = x;
  x = at + step;
  const double up = f();
  x = at - step;
  const double down = f();
  x = at;
  return (up - down) / (2 * step);
}

// The derivative of a smooth f from four points. With a step of 2^-10 the truncation is about 2^-40
// times the fifth derivative, and the rounding is 2^-52 times the loss over the step, 2^-42.
template <class Function>
double derivative_by(double& x, const Function& f) {
  constexpr double kStep = 0x1p-10;
  return (4 * central_difference(x, kStep, f) - central_difference(x, 2 * kStep, f)) / 3;
}

// A loss whose gradient by `result` is `d_result`. It omits the lse of -inf of rows without keys,
// which is constant.
inline double loss_of(const Tensor& result, const Tensor& d_result) {
  const std::vector<double> x = values_of(result), y = values_of(d_result);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] != -std::numeric_limits<double>::infinity()) sum += x[i] * y[i];
  return sum;
}

// Compares elements of a gradient with central differences of loss(), which reads `input`. Tests
// all elements, or at most `most`.
template <class Loss>
void expect_differences(const char* name, Tensor& input, const Tensor& gradient, const Loss& loss,
                        double step, double allowed,
                        int64_t most = std::numeric_limits<int64_t>::max()) {
  const int64_t count = gradient.count();
  ASSERT_EQ(input.count(), count) << name;
  // Steps in the golden ratio reach all columns, and rows far apart.
  const int64_t stride =
      most < count ? static_cast<int64_t>(0.618 * static_cast<double>(count)) | 1 : 1;
  for (int64_t n = 0; n < std::min(count, most); ++n) {
    const auto place = static_cast<size_t>(n * stride % count);
    EXPECT_NEAR(gradient.values<double>()[place],
                central_difference(input.values<double>()[place], step, loss), allowed)
        << name << " " << place;
  }
}

}  // namespace laws

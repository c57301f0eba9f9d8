#pragma once
// Derivatives of a call's results by differences, for scores and normalisers that no reference
// knows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "laws/call.h"
#include "rapt/backward.h"

namespace laws {

// Small inputs in f64, and gradients of output and, where there is one, statistic.
struct Inputs {
  Tensor query, key, value, d_output, d_statistic;

  Inputs(Random& random, int64_t heads, int64_t q_len, int64_t k_len, DType dtype = DType::f64)
      : query(random_normal(random, dtype, {heads, q_len, 4})),
        key(random_normal(random, dtype, {heads, k_len, 4})),
        value(random_normal(random, dtype, {heads, k_len, 3})),
        d_output(random_normal(random, dtype, {heads, q_len, 3})),
        d_statistic(random_normal(random, dtype, {heads, q_len})) {}

  AttentionResult attend(const AttentionOptions& options) const {
    return scaled_dot_product_attention(query, key, value, options);
  }
  rapt::BackwardInputs backward_inputs(AttentionResult& forward,
                                       const AttentionOptions& options) const {
    rapt::BackwardInputs in;
    in.state = forward.state();
    in.d_output = d_output;
    if (options.normalizer.statistic != rapt::Statistic::none) in.d_statistic = d_statistic;
    return in;
  }
  rapt::Gradients gradients(const AttentionOptions& options,
                            const rapt::BackwardRequest& request = {}) const {
    AttentionResult forward = attend(options);
    return scaled_dot_product_attention_backward(query, key, value, options,
                                                 backward_inputs(forward, options), request);
  }
  // What the gradients are those of.
  double loss(const AttentionOptions& options) const {
    const AttentionResult r = attend(options);
    double sum = 0;
    const auto add = [&](const Tensor& result, const Tensor& factor) {
      const std::vector<double> x = values_of(result), y = values_of(factor);
      for (size_t i = 0; i < x.size(); ++i)
        if (std::isfinite(x[i])) sum += x[i] * y[i];  // a row without keys has an lse of -inf
    };
    add(r.output, d_output);
    if (options.normalizer.statistic != rapt::Statistic::none) add(r.statistic, d_statistic);
    return sum;
  }
};

// The derivative by x of f(), which reads it, by four points: with a step of 2^-10 the truncation
// is some 2^-40 times the fifth derivative, and the rounding 2^-52 times the loss over the step,
// 2^-42.
template <class Function>
double derivative_by(double& x, const Function& f) {
  constexpr double kStep = 0x1p-10;
  const double at = x;
  const auto value = [&](double steps) {
    x = at + steps * kStep;
    return f();
  };
  const double slope = (8 * (value(1) - value(-1)) - (value(2) - value(-2))) / (12 * kStep);
  x = at;
  return slope;
}

// Query, key and value: every element. What 2^-40 leaves of losses and derivatives of some
// hundreds.
inline void expect_differences(Inputs& in, const AttentionOptions& options) {
  constexpr double kAllowed = 1e-8;
  const rapt::Gradients g = in.gradients(options);
  const auto expect = [&](Tensor& input, const Tensor& gradient, const char* what) {
    const std::vector<double> got = values_of(gradient);
    double largest = 1;
    for (const double x : got) largest = std::max(largest, std::abs(x));
    size_t i = 0;
    for (double& x : input.values<double>()) {
      EXPECT_NEAR(got[i], derivative_by(x, [&] { return in.loss(options); }), kAllowed * largest)
          << what << " " << i;
      ++i;
    }
  };
  expect(in.query, g.d_query, "d_query");
  expect(in.key, g.d_key, "d_key");
  expect(in.value, g.d_value, "d_value");
}

}  // namespace laws

#pragma once
// Derivatives of a call's results by finite differences, for scores and normalisers without a
// reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "rapt/backward.h"
#include "support/differences.h"

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
  // The inputs whose gradients are compared.
  double loss(const AttentionOptions& options) const {
    const AttentionResult r = attend(options);
    double sum = loss_of(r.output, d_output);
    if (options.normalizer.statistic != rapt::Statistic::none)
      sum += loss_of(r.statistic, d_statistic);
    return sum;
  }
};

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

#pragma once
// Rows of sparsemax, entmax15 and alpha-entmax by the reference (check/reference/entmax_family.h),
// and the dense Jacobian.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "check/reference/normalizer.h"
#include "rapt/backward.h"
#include "rapt/catalogue.h"
#include "rapt/mask/boolean.h"
#include "support/differences.h"

namespace laws::entmax {

using rapt::BackwardInputs;
using rapt::BackwardRequest;

using Row = std::vector<double>;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kStep = 1e-6;  // of differences: hardly a weight begins within it

struct Member {  // of the family
  const char* text;
  double alpha;
};
inline constexpr Member kMembers[] = {{"sparsemax", 2},
                                      {"entmax15", 1.5},
                                      {"entmax(2)", 2},
                                      {"entmax", 1.5},
                                      {"entmax(1.25)", 1.25},
                                      {"entmax(1.7)", 1.7},
                                      {"entmax(1.05)", 1.05},
                                      // Roundings beside alphas whose powers are products.
                                      {"entmax(1.4999999999999998)", 0x1.7ffffffffffffp0},
                                      {"entmax(1.5000000000000002)", 0x1.8000000000001p0},
                                      {"entmax(1.9999999999999998)", 0x1.fffffffffffffp0},
                                      {"entmax(1.3333333333333333)", 0x1.5555555555555p0},
                                      {"entmax(1.3333333333333335)", 0x1.5555555555556p0}};

struct RowWeights {
  Row weights, slopes;  // p and p^(2 - alpha), 0 off the support
  double tau = -kInfinity;
};

inline RowWeights row_weights(const Row& scores, const std::vector<bool>& allowed, double alpha) {
  std::vector<long double> seen;
  for (size_t j = 0; j < scores.size(); ++j)
    if (allowed[j]) seen.push_back(scores[j]);
  check::EntmaxReference reference;
  reference.alpha = alpha;
  const auto weighed = reference.weigh(std::span<const long double>(seen));
  RowWeights r{Row(scores.size()), Row(scores.size()), static_cast<double>(weighed.statistic)};
  for (size_t j = 0, x = 0; j < scores.size(); ++j) {
    if (!allowed[j]) continue;
    const long double weight = weighed.powers[x++] / weighed.divisor;
    r.weights[j] = static_cast<double>(weight);
    r.slopes[j] = static_cast<double>(reference.slope(weight));
  }
  return r;
}

struct Problem {
  DType dtype;
  int64_t q_len, k_len, head_dim, value_dim;
  double scale = 1;
  Tensor query, key, value, allowed, d_output, d_statistic;

  // Scores have a standard deviation of `spread`.
  Problem(Random& random, DType type, int64_t q, int64_t k, double spread, double density,
          int64_t d = 6, int64_t v = 5)
      : dtype(type),
        q_len(q),
        k_len(k),
        head_dim(d),
        value_dim(v),
        scale(spread / std::sqrt(static_cast<double>(d))),
        query(random_normal(random, type, {q, d})),
        key(random_normal(random, type, {k, d})),
        value(random_normal(random, type, {k, v})),
        allowed(DType::boolean, {q, k}),
        d_output(random_normal(random, type, {q, v})),
        d_statistic(random_normal(random, type == DType::f64 ? type : DType::f32, {q})) {
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(density)); });
  }

  Row scores(int64_t i) const {
    Row s;
    for (int64_t j = 0; j < k_len; ++j) {
      double sum = 0;
      for (int64_t d = 0; d < head_dim; ++d) sum += get(query, Dims{i, d}) * get(key, Dims{j, d});
      s.push_back(scale * sum);
    }
    return s;
  }
  RowWeights weights(int64_t i, double alpha) const {
    std::vector<bool> seen;
    for (int64_t j = 0; j < k_len; ++j) seen.push_back(get(allowed, Dims{i, j}) != 0);
    return row_weights(scores(i), seen, alpha);
  }
};

struct Results {
  AttentionResult forward;
  rapt::Gradients gradients;
};

inline Results results_of(const Problem& p, const char* normalizer, bool weights = true,
                          rapt::BackwardPasses passes = rapt::BackwardPasses::one,
                          int threads = 0) {
  const rapt::Boolean mask(p.allowed);
  const rapt::MadeNormalizer made = rapt::make_normalizer(normalizer);
  AttentionOptions options;
  options.normalizer = made.ref;
  options.masks = {&mask};
  options.scale = p.scale;
  if (weights) options.weights.emplace(), options.received = true;
  Context context;
  context.threads = threads;
  Results r;
  r.forward = scaled_dot_product_attention(p.query, p.key, p.value, options, context);
  BackwardInputs inputs;
  inputs.state = r.forward.state();
  inputs.d_output = p.d_output;
  inputs.d_statistic = p.d_statistic;
  BackwardRequest request;
  request.passes = passes;
  request.scale = true;
  r.gradients = scaled_dot_product_attention_backward(p.query, p.key, p.value, options, inputs,
                                                      request, context);
  return r;
}

// A bound of the error of a row whose scores have rounding errors of `unit` each. Weights change at
// most by as much as scores (the Jacobian diag(u) - u u^T / sum u with u <= 1 has a norm of at most
// 1), each weight has its own rounding besides, and the power 1 / (alpha - 1) magnifies the
// roundings of its argument.
inline double tolerance_of(const Problem& p, double alpha, double unit) {
  double largest = 0;
  for (int64_t i = 0; i < p.q_len; ++i)
    for (const double s : p.scores(i)) largest = std::max(largest, std::abs(s));
  const double of_scores = unit * (static_cast<double>(p.head_dim) + 4) * (largest + 1);
  return 4 * (of_scores + unit * (4 + 8 / (alpha - 1)));
}

inline double unit_of(DType dtype) { return dtype == DType::f64 ? 0x1p-52 : 0x1p-23; }

inline void expect_forward(const Problem& p, const Member& member, const AttentionResult& got) {
  const double tolerance = tolerance_of(p, member.alpha, unit_of(p.dtype));
  const double of_output = p.dtype == DType::bf16 ? 0x1p-8 : p.dtype == DType::f16 ? 0x1p-10 : 0;
  Row received(static_cast<size_t>(p.k_len));
  for (int64_t i = 0; i < p.q_len; ++i) {
    const RowWeights expected = p.weights(i, member.alpha);
    const double tau = get(got.statistic, Dims{i});
    if (expected.tau == -kInfinity) {
      EXPECT_EQ(tau, -kInfinity);
    } else {
      ASSERT_NEAR(tau, expected.tau, 4 * tolerance) << "tau of " << i;
    }
    double sum = 0;
    for (int64_t j = 0; j < p.k_len; ++j) {
      const double weight = get(got.weights, Dims{i, j}), right = expected.weights[j];
      ASSERT_NEAR(weight, right, tolerance) << "weight " << i << ", " << j;
      if (get(p.allowed, Dims{i, j}) == 0) {
        ASSERT_EQ(weight, 0);
      }
      sum += weight;
      received[static_cast<size_t>(j)] += right;
    }
    if (expected.tau > -kInfinity) {
      ASSERT_NEAR(sum, 1, tolerance);
    }
    for (int64_t d = 0; d < p.value_dim; ++d) {
      double output = 0, size = 0;
      for (int64_t j = 0; j < p.k_len; ++j) {
        const double value = get(p.value, Dims{j, d});
        output += expected.weights[j] * value;
        size += (expected.weights[j] > 0) * std::abs(value);
      }
      ASSERT_NEAR(get(got.output, Dims{i, d}), output,
                  tolerance * (size + 1) + of_output * std::abs(output))
          << "output " << i << ", " << d;
    }
  }
  for (int64_t j = 0; j < p.k_len; ++j)
    ASSERT_NEAR(get(got.received, Dims{j}), received[static_cast<size_t>(j)],
                tolerance * static_cast<double>(p.q_len))
        << "received " << j;
}

// By the dense Jacobian of each row.
inline void expect_gradients(const Problem& p, const Member& member, const rapt::Gradients& got,
                             double tolerance) {
  const auto zeros = [](int64_t rows, int64_t columns) {
    return std::vector<Row>(static_cast<size_t>(rows), Row(static_cast<size_t>(columns)));
  };
  auto d_query = zeros(p.q_len, p.head_dim), d_key = zeros(p.k_len, p.head_dim),
       d_value = zeros(p.k_len, p.value_dim);
  double d_scale = 0;
  for (int64_t i = 0; i < p.q_len; ++i) {
    const RowWeights row = p.weights(i, member.alpha);
    Row d_weights(static_cast<size_t>(p.k_len));
    double sum = 0, mean = 0;
    for (int64_t j = 0; j < p.k_len; ++j) {
      const auto at = static_cast<size_t>(j);
      for (int64_t d = 0; d < p.value_dim; ++d) {
        d_weights[at] += get(p.d_output, Dims{i, d}) * get(p.value, Dims{j, d});
        d_value[at][static_cast<size_t>(d)] += row.weights[at] * get(p.d_output, Dims{i, d});
      }
      sum += row.slopes[at], mean += row.slopes[at] * d_weights[at];
    }
    if (sum == 0) continue;
    mean /= sum;
    const double d_tau = (member.alpha - 1) * get(p.d_statistic, Dims{i}) / sum;
    const Row scores = p.scores(i);
    for (int64_t j = 0; j < p.k_len; ++j) {
      const auto at = static_cast<size_t>(j);
      const double d_score = row.slopes[at] * (d_weights[at] - mean + d_tau);
      for (int64_t d = 0; d < p.head_dim; ++d) {
        d_query[static_cast<size_t>(i)][static_cast<size_t>(d)] +=
            p.scale * d_score * get(p.key, Dims{j, d});
        d_key[at][static_cast<size_t>(d)] += p.scale * d_score * get(p.query, Dims{i, d});
      }
      d_scale += d_score * scores[at] / p.scale;
    }
  }
  const auto compare = [&](const char* name, const Tensor& tensor, const std::vector<Row>& right) {
    for_each_index(tensor.dims(), [&](auto at) {
      const double expected = right[static_cast<size_t>(at[0])][static_cast<size_t>(at[1])];
      EXPECT_NEAR(get(tensor, at), expected, tolerance * (1 + std::abs(expected)))
          << name << " " << at[0] << ", " << at[1];
    });
    ASSERT_FALSE(testing::Test::HasFailure());
  };
  compare("d_query", got.d_query, d_query);
  compare("d_key", got.d_key, d_key);
  compare("d_value", got.d_value, d_value);
  ASSERT_NEAR(got.d_scale.values<double>()[0], d_scale,
              tolerance * static_cast<double>(p.q_len) * (1 + std::abs(d_scale)));
}

// By differences, some elements of each input: of a call with a bias that returns its weights.
inline void expect_differences_with_bias(Problem& p, Tensor& bias, const Tensor& d_weights,
                                         const AttentionOptions& options,
                                         const rapt::Gradients& g) {
  const auto loss = [&] {
    const AttentionResult at = scaled_dot_product_attention(p.query, p.key, p.value, options);
    return loss_of(at.output, p.d_output) + loss_of(at.statistic, p.d_statistic) +
           loss_of(at.weights, d_weights);
  };
  expect_differences("d_query", p.query, g.d_query, loss, kStep, 1e-4, 8);
  expect_differences("d_key", p.key, g.d_key, loss, kStep, 1e-4, 8);
  expect_differences("d_value", p.value, g.d_value, loss, kStep, 1e-4, 8);
  expect_differences("d_bias", bias, g.d_bias, loss, kStep, 1e-4, 8);
}

}  // namespace laws::entmax

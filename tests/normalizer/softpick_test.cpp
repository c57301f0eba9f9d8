// softpick: known weights, no weight for scores below 0, no sink, rows without a weight, results
// over parts of the keys, gradients against central differences.
#include <gtest/gtest.h>

#include <cmath>

#include "rapt/backward.h"
#include "rapt/catalogue.h"
#include "support/call.h"

namespace laws {
namespace {

constexpr rapt::Softpick kSoftpick{};
constexpr double kNone = -std::numeric_limits<double>::infinity();

// One query whose scores are these, by the bias; values of 1.
struct ScoreRow {
  int64_t count;
  DType dtype;
  Tensor query, key, value, bias;
  AttentionOptions options;

  explicit ScoreRow(const std::vector<double>& scores, DType type = DType::f64)
      : count(static_cast<int64_t>(scores.size())),
        dtype(type),
        query(filled(dtype, {1, 1}, 0)),
        key(filled(dtype, {count, 1}, 0)),
        value(filled(dtype, {count, 1}, 1)),
        bias(dtype, {1, count}) {
    for (int64_t j = 0; j < count; ++j) set(bias, Dims{0, j}, scores[static_cast<size_t>(j)]);
    options.normalizer = kSoftpick;
    options.bias = bias;
    options.weights.emplace();
  }
  AttentionResult attend() const {
    return scaled_dot_product_attention(query, key, value, options);
  }
};

void expect_weights(const std::vector<double>& scores, const std::vector<double>& weights,
                    double statistic) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const AttentionResult r = ScoreRow(scores, dtype).attend();
    const double near = dtype == DType::f64 ? 4e-16 : 3e-7;
    for (size_t j = 0; j < weights.size(); ++j)
      EXPECT_NEAR(values_of(r.weights)[j], weights[j], near) << j;
    if (statistic == kNone)
      EXPECT_EQ(values_of(r.statistic)[0], kNone);
    else
      EXPECT_NEAR(values_of(r.statistic)[0], statistic, 2 * near * (1 + std::abs(statistic)));
  }
}

TEST(Softpick, KnownWeights) {
  // e^s - 1 of 2, 0, -1/2 and 1: the sum of their sizes is 3.5.
  expect_weights({std::log(3), 0, -std::log(2), std::log(2)}, {4.0 / 7, 0, 0, 2.0 / 7},
                 std::log(3.5));
  expect_weights({std::log(5)}, {1}, std::log(4));
  expect_weights({1000, 1000, -1000}, {0.5, 0.5, 0}, 1000 + std::log(2));  // without overflow
}

TEST(Softpick, ScoresBelowZeroHaveNoWeight) {
  expect_weights({-1, -2, -std::log(2)}, {0, 0, 0}, std::log(2.5 - std::exp(-1) - std::exp(-2)));
  expect_weights({-1e4, -1e4}, {0, 0}, std::log(2));
}

TEST(Softpick, RowsOfZerosAndOfNoKeyHaveNone) {
  expect_weights({0, 0, 0}, {0, 0, 0}, kNone);
  expect_weights({kNone, kNone}, {0, 0}, kNone);
  expect_weights({std::log(2), kNone}, {1, 0}, 0);
}

// A block of keys with larger scores rescales what was summed before.
TEST(Softpick, LargerScoresMayComeLast) {
  std::vector<double> scores;
  double sum = 0;
  for (int j = 0; j < 700; ++j) {
    scores.push_back(0.05 * j - 5);
    sum += std::abs(std::expm1(scores.back()));
  }
  const AttentionResult r = ScoreRow(scores).attend();
  for (size_t j = 0; j < scores.size(); ++j)
    EXPECT_NEAR(values_of(r.weights)[j], std::max(0.0, std::expm1(scores[j])) / sum, 1e-15);
  EXPECT_NEAR(values_of(r.output)[0], 1, 1e-3);  // less what scores below 0 have in the sum
  EXPECT_LT(values_of(r.output)[0], 1);
}

TEST(Softpick, PartsOfTheKeysAreMerged) {
  const std::vector<double> scores = {0.5, -2, 3, 0, -0.1, 1.5};
  const AttentionResult whole = ScoreRow(scores).attend();
  AttentionResult a = ScoreRow({scores.begin(), scores.begin() + 2}).attend();
  AttentionResult b = ScoreRow({scores.begin() + 2, scores.end()}).attend();
  AttentionResult into = ScoreRow({scores.begin(), scores.begin() + 2}).attend();
  rapt::merge(into.state(), b.state(), kSoftpick);
  EXPECT_NEAR(values_of(into.output)[0], values_of(whole.output)[0], 1e-15);
  EXPECT_NEAR(values_of(into.statistic)[0], values_of(whole.statistic)[0], 1e-15);
  EXPECT_NE(values_of(a.output)[0], values_of(whole.output)[0]);
}

// The loss: output times 0.7 plus statistic times 0.3, over values that differ.
TEST(Softpick, GradientsOfScoresOfEitherSign) {
  const std::vector<double> scores = {0.5, -2, 3, -0.1, 1.5, 0};
  const auto values = [](ScoreRow& row) {
    for (int64_t j = 0; j < row.count; ++j)
      set(row.value, Dims{j, 0}, 1 + 0.5 * static_cast<double>(j * j));
  };
  const auto loss = [&](const std::vector<double>& of) {
    ScoreRow row(of);
    values(row);
    const AttentionResult r = row.attend();
    return 0.7 * values_of(r.output)[0] + 0.3 * values_of(r.statistic)[0];
  };
  ScoreRow row(scores);
  values(row);
  AttentionResult r = row.attend();
  const Tensor d_output = filled(DType::f64, {1, 1}, 0.7), d_lse = filled(DType::f64, {1}, 0.3);
  rapt::BackwardInputs inputs;
  inputs.state = r.state();
  inputs.d_output = d_output;
  inputs.d_statistic = d_lse;
  rapt::BackwardRequest request;
  request.bias = true;
  AttentionOptions options = row.options;
  options.weights.reset();
  const rapt::Gradients g = scaled_dot_product_attention_backward(row.query, row.key, row.value,
                                                                  options, inputs, request);
  constexpr double kStep = 1e-5;
  for (size_t j = 0; j + 1 < scores.size(); ++j) {  // at 0 there is a kink
    std::vector<double> more = scores, less = scores;
    more[j] += kStep, less[j] -= kStep;
    EXPECT_NEAR(values_of(g.d_bias)[j], (loss(more) - loss(less)) / (2 * kStep), 1e-8) << j;
  }
  EXPECT_EQ(values_of(g.d_bias)[scores.size() - 1], 0);
}

}  // namespace
}  // namespace laws

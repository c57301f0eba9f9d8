// What kerple_log is known for: the paper's numbers, and ALiBi as its limit.
#include "rapt/score/kerple_log.h"

#include <gtest/gtest.h>

#include <cmath>

#include "rapt/backward.h"
#include "rapt/score/alibi.h"
#include "score/scores_alone.h"
#include "support/call.h"
#include "support/differences.h"
#include "support/expect_error.h"

namespace laws {
namespace {

constexpr int64_t kHeads = 2, kLength = 7;

std::vector<double> penalties_of(const rapt::ScoreRef& score, DType dtype = DType::f64) {
  return scores_of(kHeads, kLength, kLength, score, dtype);
}

// Chi et al. 2022, equation 4: -r1 ln(1 + r2 |m - n|), a pair (r1, r2) per head. The numbers are
// below 4, and a product and a logarithm round by 2^-52 each.
TEST(KerpleLog, IsThePapersFormula) {
  const double amplitudes[kHeads] = {1.5, 0.25}, rates[kHeads] = {0.5, 3};
  const rapt::KerpleLog score({amplitudes, {kHeads}}, {rates, {kHeads}});
  const std::vector<double> found = penalties_of(score);
  for (int64_t h = 0; h < kHeads; ++h)
    for (int64_t i = 0; i < kLength; ++i)
      for (int64_t j = 0; j < kLength; ++j) {
        const auto distance = static_cast<double>(std::abs(i - j));
        EXPECT_NEAR(found[static_cast<size_t>((h * kLength + i) * kLength + j)],
                    -amplitudes[h] * std::log1p(rates[h] * distance), 0x1p-50)
            << h << " " << i << " " << j;
      }
}

// Also where 1 + b d rounds to 1: ln(1 + x) = x - x^2 / 2.
TEST(KerpleLog, OfSmallRatesIsAlibi) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double rate : {1e-6, 1e-9, 1e-18}) {
      const double amplitudes[kHeads] = {0.5 / rate, 0.25 / rate}, slopes[kHeads] = {0.5, 0.25};
      const rapt::KerpleLog score({amplitudes, {kHeads}}, {&rate, {1}});
      const rapt::Alibi limit({slopes, {kHeads}});
      const std::vector<double> found = penalties_of(score, dtype),
                                expected = penalties_of(limit, dtype);
      // a, b, b d, the logarithm's two and the product each round by half of this, and the bend.
      const double e = dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
      for (size_t x = 0; x < expected.size(); ++x)
        EXPECT_NEAR(found[x], expected[x], (3 * e + rate * kLength / 2) * std::abs(expected[x]))
            << rate << " " << x;
    }
}

// Amplitudes of every batch and head beside one rate for all: each has its own places.
TEST(KerpleLog, GradientsOfNumbersWithDifferentDimensions) {
  Random random(5);
  const Dims rows{2, kHeads, kLength, 3};
  const Tensor query = random_normal(random, DType::f64, rows),
               key = random_normal(random, DType::f64, rows),
               value = random_normal(random, DType::f64, rows),
               d_output = random_normal(random, DType::f64, rows);
  Tensor amplitudes = random_normal(random, DType::f64, {2, kHeads}),
         rates = filled(DType::f64, {1}, 0.7);
  const rapt::KerpleLog score(amplitudes, rates);
  AttentionOptions options;
  options.scores = {score};
  const auto loss = [&] {
    return loss_of(scaled_dot_product_attention(query, key, value, options).output, d_output);
  };
  rapt::BackwardInputs inputs;
  rapt::AttentionResult forward = scaled_dot_product_attention(query, key, value, options);
  inputs.state = forward.state();
  inputs.d_output = d_output;
  rapt::BackwardRequest request;
  request.score_parameters = true;
  const std::vector<double> gradient =
      values_of(scaled_dot_product_attention_backward(query, key, value, options, inputs, request)
                    .d_score_parameters);
  ASSERT_EQ(gradient.size(), 5u);
  for (size_t n = 0; n < 5; ++n) {
    double& number = n < 4 ? amplitudes.values<double>()[n] : rates.values<double>()[0];
    EXPECT_NEAR(gradient[n], derivative_by(number, loss), 1e-10) << n;
  }
}

TEST(KerpleLog, RefusesRatesBelowZero) {
  const double amplitudes[kHeads] = {1, 1}, rates[kHeads] = {0.5, -0.5};
  const rapt::KerpleLog score({amplitudes, {kHeads}}, {rates, {kHeads}});
  expect_error(rapt::ErrorCode::argument, {"kerple_log", "rates", "-0.5"},
               [&] { penalties_of(score); });
  const rapt::KerpleLog without({amplitudes, {kHeads}}, {});
  expect_error(rapt::ErrorCode::argument, {"kerple_log", "rates"}, [&] { penalties_of(without); });
}

}  // namespace
}  // namespace laws

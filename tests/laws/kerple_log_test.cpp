// What kerple_log is known for: the paper's numbers, and ALiBi as its limit.
#include "rapt/score/kerple_log.h"

#include <gtest/gtest.h>

#include <cmath>

#include "laws/call.h"
#include "laws/expect_error.h"
#include "rapt/catalogue.h"
#include "rapt/score/alibi.h"

namespace laws {
namespace {

constexpr int64_t kHeads = 2, kLength = 7;

// The scores themselves, [kHeads, kLength, kLength] of f64: those of products of 0.
std::vector<double> penalties_of(const rapt::ScoreRef& score) {
  const Tensor rows = filled(DType::f64, {kHeads, kLength, 1}, 0);
  AttentionOptions options;
  options.scores = {score};
  options.weights.emplace();
  options.weights->stage = rapt::WeightsStage::scores;
  return values_of(scaled_dot_product_attention(rows, rows, rows, options).weights);
}

// Chi et al. 2022, equation 4: -r1 ln(1 + r2 |m - n|), a pair (r1, r2) per head.
TEST(KerpleLog, IsThePapersFormula) {
  const double amplitudes[kHeads] = {1.5, 0.25}, rates[kHeads] = {0.5, 3};
  const rapt::KerpleLog score({amplitudes, {kHeads}}, {rates, {kHeads}});
  const std::vector<double> found = penalties_of(score);
  for (int64_t h = 0; h < kHeads; ++h)
    for (int64_t i = 0; i < kLength; ++i)
      for (int64_t j = 0; j < kLength; ++j) {
        const auto distance = static_cast<double>(std::abs(i - j));
        EXPECT_NEAR(found[static_cast<size_t>((h * kLength + i) * kLength + j)],
                    -amplitudes[h] * std::log(1 + rates[h] * distance), 1e-15)
            << h << " " << i << " " << j;
      }
}

TEST(KerpleLog, OfSmallRatesIsAlibi) {
  constexpr double kRate = 1e-9;
  const double amplitudes[kHeads] = {0.5 / kRate, 0.25 / kRate}, rates[] = {kRate};
  const double slopes[kHeads] = {0.5, 0.25};
  const rapt::KerpleLog score({amplitudes, {kHeads}}, {rates, {1}});
  const rapt::Alibi limit({slopes, {kHeads}});
  const std::vector<double> found = penalties_of(score), expected = penalties_of(limit);
  // ln(1 + x) = x - x^2 / 2, and 1 + x rounds by 2^-53.
  for (size_t x = 0; x < expected.size(); ++x) EXPECT_NEAR(found[x], expected[x], 1e-6) << x;
}

TEST(KerpleLog, RefusesRatesBelowZero) {
  const double amplitudes[kHeads] = {1, 1}, rates[kHeads] = {0.5, -0.5};
  const rapt::KerpleLog score({amplitudes, {kHeads}}, {rates, {kHeads}});
  expect_error(ErrorCode::argument, {"kerple_log", "rates", "-0.5"}, [&] { penalties_of(score); });
  const rapt::KerpleLog without({amplitudes, {kHeads}}, {});
  expect_error(ErrorCode::argument, {"kerple_log", "rates"}, [&] { penalties_of(without); });
}

}  // namespace
}  // namespace laws

// Errors, spread over seeds, recall and leaks of `rapt compare`, against plain computations.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "cli/compare/metrics/gradient_of_units.h"
#include "cli/compare/metrics/leak.h"
#include "cli/compare/metrics/result_error.h"
#include "cli/compare/metrics/tensor_rows.h"
#include "cli/compare/metrics/true_weights.h"
#include "cli/files/conversion.h"

namespace rapt::cli {
namespace {

Tensor matrix(std::vector<int64_t> shape, const std::vector<double>& numbers) {
  Tensor tensor(DType::f64, shape);
  std::copy(numbers.begin(), numbers.end(), tensor.values<double>().begin());
  return tensor;
}

TEST(CompareMetricsTest, ErrorsAreNormsOfDifferencesOverNormsOfRows) {
  const Tensor exact = matrix({4, 2}, {3, 4, 0, 0, 1, 0, 0, 2});
  const Tensor result = matrix({4, 2}, {3, 3, 0, 0, 1, 2, 0, 2});
  const ResultError error = result_error(result.view(), exact.view());
  EXPECT_NEAR(error.relative, std::sqrt(5.0 / 30), 1e-15);
  EXPECT_EQ(error.rows.at_50, 0);  // errors 0, 0, 1/5, 2
  EXPECT_NEAR(error.rows.at_90, 2, 1e-15);
  EXPECT_NEAR(error.rows.at_100, 2, 1e-15);
  const Tensor missed = matrix({4, 2}, {3, 4, 1, 0, 1, 0, 0, 2});
  EXPECT_EQ(result_error(missed.view(), exact.view()).rows.at_100,
            std::numeric_limits<double>::infinity());
  const Tensor broken = matrix({4, 2}, {3, 4, 0, 0, 1, std::nan(""), 0, 2});
  EXPECT_TRUE(std::isnan(result_error(broken.view(), exact.view()).relative));
  EXPECT_TRUE(std::isnan(result_error(broken.view(), exact.view()).rows.at_100));
}

TEST(CompareMetricsTest, BiasAndSpreadAreThoseOfTheSeeds) {
  const Tensor exact = matrix({1, 2}, {3, 4});
  SeedSpread spread;
  spread.add(matrix({1, 2}, {5, 4}).view(), exact.view());  // D = (2, 0)
  spread.add(matrix({1, 2}, {3, 8}).view(), exact.view());  // D = (0, 4), mean (1, 2)
  EXPECT_NEAR(spread.bias(), std::sqrt(5.0) / 5, 1e-6);
  EXPECT_NEAR(spread.spread(), std::sqrt(10.0) / 5, 1e-6);
}

TEST(CompareMetricsTest, WeightsAndRecallCountThePairsLookedAt) {
  const Tensor weights = matrix({2, 4}, {.1, .2, .3, .4, 1, 0, 0, 0});
  const Tensor possible = matrix({2, 4}, {1, 1, 1, 1, 1, 0, 0, 0});
  const Tensor looked_at = matrix({2, 4}, {1, 0, 0, 1, 1, 0, 0, 0});
  TrueWeightsSum sum;
  sum.add(weights.view(), possible.view(), looked_at.view());
  const TrueWeights mean = sum.mean();
  EXPECT_NEAR(mean.share, (.5 + 1) / 2, 1e-15);
  EXPECT_EQ(mean.recall[0], 1);
  EXPECT_EQ(mean.recall[1], (.5 + 1) / 2);  // all 4, and the only one
  EXPECT_EQ(mean.pairs, 3.0 / 5);
}

TEST(CompareMetricsTest, APlantedLeakIsFound) {
  Tensor result(DType::f32, {2, 4, 2});
  for (float& x : result.values<float>()) x = 3;
  Tensor other = with_other_rows(result.view(), 2, 1);
  const Leak none = leak_between(result.view(), other.view(), 2);
  EXPECT_EQ(none.rows, 0);
  EXPECT_EQ(none.of, 4);
  for (const size_t later : {4u, 7u, 12u, 15u})
    EXPECT_NE(other.values<float>()[later], 3) << "a row that was to be replaced";
  other.values<float>()[9] = 6;  // row 0 of the second matrix
  const Leak planted = leak_between(result.view(), other.view(), 2);
  EXPECT_EQ(planted.rows, 1);
  EXPECT_NEAR(planted.largest, 3 / std::sqrt(18.0), 1e-6);
}

TEST(CompareMetricsTest, ALeakOfZeroSignsIsSmallAndOneOfNaNInfinite) {
  const Tensor result = matrix({3, 2}, {0, 0, 0, 0, 1, 1});
  const Tensor signs = matrix({3, 2}, {-0.0, 0, 0, 0, 1, 1});
  const Leak zeros = leak_between(result.view(), signs.view(), 2);
  EXPECT_EQ(zeros.rows, 1);
  EXPECT_EQ(zeros.largest, 0);
  const Tensor nan = matrix({3, 2}, {std::nan(""), 0, 0, 0, 1, 1});
  EXPECT_EQ(leak_between(result.view(), nan.view(), 2).largest,
            std::numeric_limits<double>::infinity());
}

TEST(CompareMetricsTest, RowsGetTheGradientOfTheirUnitVectors) {
  const std::vector<double> query = {3, 4, 0, 0}, d_unit = {1, 0, 1, 1}, d_query = {1, 2, 5, 6};
  // u = (.6, .8): (d_unit - .6 u) / 5. A row of zeros stays as it is.
  const std::vector<double> plain = {1.128, 1.904, 5, 6};
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    Tensor sum = converted(matrix({2, 2}, d_query).view(), dtype);
    add_gradient_of_units(converted(matrix({2, 2}, query).view(), dtype).view(),
                          converted(matrix({2, 2}, d_unit).view(), dtype).view(), sum);
    TensorRows rows(std::as_const(sum).view());
    const double rounding = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0x1p-23;
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t d = 0; d < 2; ++d)
        EXPECT_NEAR(rows.row(i)[d], plain[static_cast<size_t>(2 * i + d)], 2 * rounding)
            << name_of(dtype);
  }
}

}  // namespace
}  // namespace rapt::cli

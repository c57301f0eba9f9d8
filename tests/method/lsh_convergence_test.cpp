// LSH attention becomes exact attention as rounds are added, unless duplicates count: Reformer's
// algorithm on clustered rows.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "check/tensors/arrays.h"
#include "rapt/attention.h"
#include "rapt/method/lsh.h"

namespace laws {
namespace {

using check::Random;
using rapt::DType;
using rapt::Lsh;
using rapt::LshDuplicates;
using rapt::Tensor;

// Clustered rows: 8 centres, rows of length 6 near them, scale 1; as many buckets as chunks, which
// is the rule of reformer-pytorch.
double error_of_clustered(int64_t rounds, LshDuplicates duplicates, int64_t seed) {
  constexpr int64_t kRows = 128, kDims = 32;
  Random random(static_cast<uint64_t>(seed) + 100);
  std::vector<double> centres(8 * kDims);
  for (double& x : centres) x = random.normal();
  Tensor rows(DType::f32, {kRows, kDims}), value(DType::f32, {kRows, kDims});
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t centre = random.between(0, 7);
    std::vector<double> row(kDims);
    double square = 0;
    for (int64_t d = 0; d < kDims; ++d) {
      row[d] = centres[centre * kDims + d] + 0.6 * random.normal();
      square += row[d] * row[d];
    }
    for (int64_t d = 0; d < kDims; ++d) {
      rows.values<float>()[i * kDims + d] = static_cast<float>(6 * row[d] / std::sqrt(square));
      value.values<float>()[i * kDims + d] = static_cast<float>(random.normal());
    }
  }
  const auto output = [&](int64_t chunk) {
    Lsh lsh(rounds);
    lsh.chunk = chunk, lsh.buckets = kRows / chunk;
    lsh.duplicates = duplicates, lsh.seed = seed;
    return scaled_dot_product_attention(rows, rows, value, {.scale = 1, .method = &lsh}).output;
  };
  Lsh once;
  once.chunk = kRows;
  const Tensor exact =
      scaled_dot_product_attention(rows, rows, value, {.scale = 1, .method = &once}).output;
  const Tensor got = output(16);
  double error = 0, size = 0;
  for (int64_t i = 0; i < exact.count(); ++i) {
    const double e = exact.values<float>()[i], g = got.values<float>()[i];
    error += (g - e) * (g - e), size += e * e;
  }
  return std::sqrt(error / size);
}

double mean_error(int64_t rounds, LshDuplicates duplicates) {
  double sum = 0;
  for (int64_t seed = 0; seed < 8; ++seed) sum += error_of_clustered(rounds, duplicates, seed);
  return sum / 8;
}

// The errors are those of a dense program for 60 problems (docs/methods/lsh.md). Single problems
// deviate by 0.05, 0.03, 0.02 and 0.005 at 4, 8, 16 and 32 rounds; the tolerance is three
// deviations of a mean of eight.
TEST(LshConvergence, ConvergesWithRoundsUnlessDuplicatesCount) {
  const auto once = LshDuplicates::count_once, all = LshDuplicates::count_all;
  const double deviations = 3 / std::sqrt(8.0);
  EXPECT_NEAR(mean_error(4, once), 0.40, 0.05 * deviations);
  EXPECT_NEAR(mean_error(8, once), 0.16, 0.03 * deviations);
  EXPECT_NEAR(mean_error(16, once), 0.044, 0.02 * deviations);
  EXPECT_NEAR(mean_error(32, once), 0.002, 0.005 * deviations);
  EXPECT_GT(mean_error(32, all), 0.3);
}

}  // namespace
}  // namespace laws

// Random features have the means and variances that the papers prove, and orthogonal rows are
// unbiased.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "rapt/attention.h"
#include "rapt/method/favor.h"
#include "support/call.h"

namespace laws {
namespace {

using Vector = std::vector<double>;

double product(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Mean of estimates, and of their squared errors, with standard errors.
struct Estimates {
  double truth, sum = 0, squares = 0, fourths = 0, count = 0;

  void add(double x) {
    const double square = (x - truth) * (x - truth);
    sum += x, squares += square, fourths += square * square, ++count;
  }
  double mean() const { return sum / count; }
  double error() const { return squares / count; }  // mean squared
  double mean_deviation() const { return std::sqrt(error() / count); }
  double error_deviation() const {
    return std::sqrt((fourths / count - error() * error()) / count);
  }
};

// phi(x) for rows x, as favor makes it: the state behind the one key x. [row][feature]
std::vector<Vector> features_of(rapt::Favor favor, const std::vector<Vector>& rows) {
  const auto count = static_cast<int64_t>(rows.size()), dims = static_cast<int64_t>(rows[0].size());
  const int64_t features =
      favor.kind == rapt::FavorKind::positive ? favor.features : 2 * favor.features;
  Tensor keys(DType::f64, {count, 1, dims}), value(DType::f64, {count, 1, 1}),
      state(DType::f64, {count, features + 1, 2});
  for (int64_t i = 0; i < count; ++i)
    std::ranges::copy(rows[static_cast<size_t>(i)],
                      keys.values<double>().subspan(static_cast<size_t>(i * dims)).begin());
  std::ranges::fill(value.values<double>(), 1);
  favor.final_state = state.view();
  (void)scaled_dot_product_attention(keys, keys, value, {.scale = 1, .method = &favor});
  std::vector<Vector> all;
  for (int64_t i = 0; i < count; ++i) {
    const auto of_row = state.values<double>().subspan(static_cast<size_t>(i * (features + 1) * 2),
                                                       static_cast<size_t>((features + 1) * 2));
    const double factor = std::exp2(of_row[static_cast<size_t>(features * 2)]);
    Vector phi(static_cast<size_t>(features));
    for (size_t f = 0; f < phi.size(); ++f) phi[f] = factor * of_row[2 * f + 1];
    all.push_back(std::move(phi));
  }
  return all;
}

// The estimate of e^(x . y) is e^lse of the query x and the key y. Sums of as many terms differ by
// a rounding for each at most.
void expect_lse(const rapt::Favor& favor, const Vector& x, const Vector& y, double estimate) {
  const auto dims = static_cast<int64_t>(x.size());
  Tensor query(DType::f64, {1, dims}), key(DType::f64, {1, dims}), value(DType::f64, {1, 1});
  std::ranges::copy(x, query.values<double>().begin());
  std::ranges::copy(y, key.values<double>().begin());
  value.values<double>()[0] = 1;
  const AttentionResult got =
      scaled_dot_product_attention(query, key, value, {.scale = 1, .method = &favor});
  EXPECT_NEAR(std::exp(get(got.statistic, Dims{0})), estimate,
              static_cast<double>(favor.features) * 0x1p-52 * estimate);
}

// Performers, Lemma 2, for one row of the projection.
TEST(RandomFeatures, HaveTheErrorsOfTheLemma) {
  constexpr int64_t kDims = 8, kDraws = 1000000;
  const Vector x = {.3, -.2, .4, .1, -.35, .25, .05, -.1},
               y = {.2, .1, .3, -.25, -.1, .4, -.3, .15};
  Vector sum(kDims), difference(kDims);
  for (size_t d = 0; d < kDims; ++d) sum[d] = x[d] + y[d], difference[d] = x[d] - y[d];
  const double truth = std::exp(product(x, y)), p = product(sum, sum),
               m = product(difference, difference);
  const Tensor w = rapt::favor_projection(kDraws, kDims, 1, rapt::ProjectionRows::independent);
  Estimates of_kind[3] = {{truth}, {truth}, {truth}};
  for (const auto kind :
       {rapt::FavorKind::positive, rapt::FavorKind::hyperbolic, rapt::FavorKind::trigonometric}) {
    rapt::Favor favor;
    favor.features = kDraws, favor.kind = kind, favor.projection = w.view();
    const std::vector<Vector> phi = features_of(favor, {x, y});
    Estimates& estimates = of_kind[static_cast<int>(kind)];
    for (size_t i = 0; i < kDraws; ++i) {
      const double first = phi[0][i] * phi[1][i];
      if (kind == rapt::FavorKind::positive) {
        estimates.add(first);
        continue;
      }
      const double second = phi[0][i + kDraws] * phi[1][i + kDraws];
      estimates.add(kind == rapt::FavorKind::hyperbolic ? (first + second) / 2 : first + second);
    }
    expect_lse(favor, x, y, estimates.mean());
  }
  const double of_positive = std::exp(p) * truth * truth * (1 - std::exp(-p));
  const double of_hyperbolic = (1 - std::exp(-p)) * of_positive / 2;
  const double of_trigonometric =
      std::exp(p) / (truth * truth) * (1 - std::exp(-m)) * (1 - std::exp(-m)) / 2;
  for (const auto& [e, expected] : {std::pair{&of_kind[0], of_positive},
                                    {&of_kind[1], of_hyperbolic},
                                    {&of_kind[2], of_trigonometric}}) {
    EXPECT_NEAR(e->mean(), truth, 3 * e->mean_deviation());
    EXPECT_NEAR(e->error(), expected, 3 * e->error_deviation());
  }
}

// Blocks of orthogonal rows: unbiased in the directions in which a Q with signs of its own is not,
// and better than independent rows where the variance is small enough to be measured.
TEST(RandomFeatures, OrthogonalRowsAreUnbiasedAndBetter) {
  constexpr int64_t kDims = 16, kBlocks = 65536;
  constexpr double kLengths[] = {1, 0.5};
  double errors[2][2][2];  // [rows][sign][length]
  for (const auto rows : {rapt::ProjectionRows::orthogonal, rapt::ProjectionRows::independent}) {
    rapt::Favor favor;
    const Tensor w = rapt::favor_projection(kBlocks * kDims, kDims, 2, rows);
    favor.features = kBlocks * kDims, favor.projection = w.view();
    for (int negative = 0; negative < 2; ++negative)
      for (int nth = 0; nth < 2; ++nth) {
        const double length = kLengths[nth], square = length * length;
        const Vector x(kDims, (negative ? -1 : 1) * length / 4);  // y = x
        const Vector phi = features_of(favor, {x})[0];
        Estimates blocks{std::exp(square)};
        for (size_t b = 0; b < kBlocks; ++b) {
          double sum = 0;
          for (size_t i = b * kDims; i < (b + 1) * kDims; ++i) sum += phi[i] * phi[i];
          blocks.add(sum / kDims);
        }
        EXPECT_NEAR(blocks.mean(), blocks.truth, 3 * blocks.mean_deviation()) << length;
        if (rows == rapt::ProjectionRows::orthogonal) {
          EXPECT_NEAR(blocks.mean() / blocks.truth, 1, 0.01) << length;
        }
        errors[static_cast<int>(rows)][negative][nth] = blocks.error();
      }
  }
  for (int negative = 0; negative < 2; ++negative)
    EXPECT_LT(errors[0][negative][1], errors[1][negative][1]);
}

// The error of the output falls with the root of the number of features.
TEST(RandomFeatures, ErrorFallsWithTheRootOfTheirNumber) {
  constexpr int64_t kTokens = 64;
  std::mt19937 generator(4);
  std::normal_distribution<float> normal(0, 0.3f);
  Tensor rows[3];
  for (Tensor& t : rows) {
    t = Tensor(DType::f32, {kTokens, 16});
    for (float& x : t.values<float>()) x = normal(generator);
  }
  const AttentionResult exact = scaled_dot_product_attention(rows[0], rows[1], rows[2], {});
  double x_sum = 0, y_sum = 0, xy_sum = 0, xx_sum = 0, count = 0;
  for (int64_t features = 16; features <= 4096; features *= 4) {
    double square = 0;
    for (int64_t seed = 0; seed < 12; ++seed) {
      rapt::Favor favor;
      favor.features = features, favor.seed = seed;
      const AttentionResult got =
          scaled_dot_product_attention(rows[0], rows[1], rows[2], {.method = &favor});
      for (size_t i = 0; i < got.output.values<float>().size(); ++i) {
        const double e = got.output.values<float>()[i] - exact.output.values<float>()[i];
        square += e * e;
      }
    }
    const double x = std::log(static_cast<double>(features)), y = std::log(square) / 2;
    x_sum += x, y_sum += y, xy_sum += x * y, xx_sum += x * x, ++count;
  }
  const double slope = (count * xy_sum - x_sum * y_sum) / (count * xx_sum - x_sum * x_sum);
  EXPECT_NEAR(slope, -0.5, 0.1);
}

}  // namespace
}  // namespace laws

// Finite but extreme: huge logits, the largest and the smallest numbers, signed zeros.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>

#include "check/tolerance/tolerance.h"
#include "support/call.h"

namespace laws {
namespace {

void expect_as_reference(const TensorView& q, const TensorView& k, const TensorView& v,
                         const AttentionOptions& options) {
  check::Problem problem{q, k, v, options.bias, options.scale, {}};
  const Expectations expected = expectations(problem);
  const AttentionResult got = scaled_dot_product_attention(q, k, v, options);
  EXPECT_TRUE(met_by(expected.output, values_of(got.output), "output"));
  EXPECT_TRUE(met_by(expected.lse, values_of(got.statistic), "lse"));
}

// Scores of +-1e30 select exactly one row, whichever side of the product is large.
TEST(ExtremeValues, HugeLogits) {
  Random random(base_seed());
  for (const int64_t k_len : {1, 2, 20, 70, 140}) {
    const Tensor value = random_normal(random, DType::f32, {k_len, 5});
    const int64_t best = random.between(0, k_len - 1);
    Tensor key = filled(DType::f32, {k_len, 1}, -1);
    set(key, Dims{best, 0}, 1);
    struct {
      double query, scale;
    } const sides[] = {{1e30, 1}, {1, 1e30}, {1e15, 1e15}, {1e-5, 1e35}, {1e35, 1e-5}};
    for (const auto& side : sides) {
      AttentionOptions options;
      options.scale = side.scale;
      const Tensor query = filled(DType::f32, {3, 1}, side.query);
      const AttentionResult got = scaled_dot_product_attention(query, key, value, options);
      const Dims rows(3, best);
      EXPECT_TRUE(same_bits(got.output, taken(value, 0, rows)))
          << k_len << " keys, query " << side.query << ", scale " << side.scale;
      EXPECT_NEAR(get(got.statistic, Dims{0}), 1e30, 1e24);
    }
  }
}

// Four keys: the third has the score `score`, the fourth -score, the others 0.
AttentionResult with_scores(double score, const AttentionOptions& options) {
  Tensor key = filled(DType::f32, {4, 1}, 0);
  set(key, Dims{2, 0}, 1);
  set(key, Dims{3, 0}, -1);
  const Tensor value = mapped(key, [](double, auto i) { return static_cast<double>(i[0] + 1); });
  return scaled_dot_product_attention(filled(DType::f32, {2, 1}, score), key, value, options);
}

// Scores up to the end of the range of f32, by the bias.
TEST(ExtremeValues, LargestBias) {
  for (const double score : {1e38, 2e38, 3e38, double{FLT_MAX}}) {
    SCOPED_TRACE(score);
    Tensor bias = filled(DType::f32, {1, 4}, 0);
    set(bias, Dims{0, 1}, score);
    AttentionOptions options;
    options.bias = bias;
    EXPECT_EQ(get(with_scores(0, options).output, Dims{0, 0}), 2);
    // finfo.min as a mask: the pair keeps its place, far below all others.
    set(bias, Dims{0, 1}, -score);
    EXPECT_NEAR(get(with_scores(0, options).output, Dims{0, 0}), 8.0 / 3, 1e-6);
  }
}

// Large queries, whose scale contains log2(e): up to FLT_MAX / log2(e). Beyond it the product may
// overflow; the result is then exact or NaN, never another number.
TEST(ExtremeValues, LargestScores) {
  AttentionOptions options;
  options.scale = 1;
  for (const double score : {1e38, 2e38, 2.35e38, 2.4e38, 3e38, double{FLT_MAX}}) {
    SCOPED_TRACE(score);
    const AttentionResult got = with_scores(score, options);
    const double output = get(got.output, Dims{0, 0}), lse = get(got.statistic, Dims{0});
    if (score > FLT_MAX * std::log(2.0) && std::isnan(output)) {
      EXPECT_FALSE(std::isfinite(lse));
    } else {
      EXPECT_EQ(output, 3);
      EXPECT_NEAR(lse / score, 1, 1e-6);
    }
  }
}

// A row whose bias is the same large number for every key is not masked: the mean, not zeros and
// not NaN. -1e9 and finfo.min for whole rows are what others' masks of padded queries look like.
TEST(ExtremeValues, OneLargeBiasForAllKeys) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double sign : {-1.0, 1.0})
      for (const double size : {1e4, 1e9, 1e10, 1e20, 1e30, 3e38, double{FLT_MAX}, DBL_MAX}) {
        if (dtype == DType::f32 && size > FLT_MAX) continue;
        SCOPED_TRACE(sign * size);
        const Tensor x = filled(dtype, {70, 2}, 1);
        const Tensor bias = filled(dtype, {1, 70}, sign * size);
        AttentionOptions options;
        options.bias = bias;
        const AttentionResult got = scaled_dot_product_attention(x, x, x, options);
        EXPECT_NEAR(get(got.output, Dims{69, 1}), 1, 1e-5);
        EXPECT_NEAR(get(got.statistic, Dims{0}) / (sign * size), 1, 1e-3);
      }
}

TEST(ExtremeValues, LargestValues) {
  Random random(base_seed());
  const Tensor query = random_normal(random, DType::f32, {6, 4});
  const Tensor key = random_normal(random, DType::f32, {50, 4});
  // The accumulator holds values times weights before the division: up to 2^8 (the slack of
  // softmax.h) times the number of keys larger than the output, which 2^-16 of the range leaves
  // room for.
  const Tensor value = filled(DType::f32, {50, 3}, FLT_MAX / 65536);
  expect_as_reference(query, key, value, {});
}

TEST(ExtremeValues, Denormals) {
  Random random(base_seed());
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double tiny = dtype == DType::f64 ? 1e-310 : 1e-40;
    const Tensor q = random_normal(random, dtype, {9, 6}, tiny);
    const Tensor k = random_normal(random, dtype, {70, 6}, 1 / std::sqrt(tiny));
    const Tensor v = random_normal(random, dtype, {70, 5}, tiny);
    const Tensor ones = random_normal(random, dtype, {70, 5});
    expect_as_reference(q, k, v, {});
    expect_as_reference(q, k, ones, {});
    expect_as_reference(k, q, taken(v, 0, Dims{0, 1, 2, 3, 4, 5, 6, 7, 8}), {});
  }
}

// The scale times log2(e) must be a float, whatever the queries are.
TEST(ExtremeValues, LargestScale) {
  Random random(base_seed());
  AttentionOptions options;
  const auto refused = [&](DType dtype, double scale) {
    const Tensor x = filled(dtype, {2, 3}, 0);
    options.scale = scale;
    int refusals = 0;
    const auto count = [&](const auto& verb) {
      try {
        verb();
      } catch (const rapt::Error& error) {
        refusals += error.code() == rapt::ErrorCode::argument;
      }
    };
    count([&] { rapt::plan(x, x, x, options); });
    count([&] { scaled_dot_product_attention(x, x, x, options); });
    return refusals;
  };
  const double most = FLT_MAX * std::log(2.0);
  for (const double sign : {1.0, -1.0}) {
    EXPECT_EQ(refused(DType::f32, sign * most * (1 + 1e-6)), 2);
    EXPECT_EQ(refused(DType::f32, sign * FLT_MAX), 2);
    EXPECT_EQ(refused(DType::f32, sign * most * (1 - 1e-6)), 0);
    EXPECT_EQ(refused(DType::f64, sign * FLT_MAX), 0);
  }
  const Tensor q = random_normal(random, DType::f32, {9, 6}, 1e-19);
  const Tensor k = random_normal(random, DType::f32, {70, 6}, 1e-19);
  const Tensor v = random_normal(random, DType::f32, {70, 5});
  options.scale = 1e38;
  expect_as_reference(q, k, v, options);
}

TEST(ExtremeValues, SignedZeros) {
  const Tensor zero = filled(DType::f32, {5, 3}, -0.0);
  const Tensor value = filled(DType::f32, {5, 2}, 2);
  AttentionOptions options;
  options.scale = -0.0;
  const AttentionResult got = scaled_dot_product_attention(zero, zero, value, options);
  for (const double o : values_of(got.output)) EXPECT_EQ(o, 2);
  EXPECT_NEAR(get(got.statistic, Dims{0}), std::log(5.0), 1e-6);
}

// Large scores with small differences: the differences decide.
TEST(ExtremeValues, LargeScoresCloseTogether) {
  Random random(base_seed());
  for (const double base : {1e3, 1e5}) {
    const Tensor query = filled(DType::f32, {4, 1}, 1);
    const Tensor noise = random_normal(random, DType::f32, {90, 1});
    const Tensor key = mapped(noise, [&](double x, auto) { return base + x; });
    const Tensor value = random_normal(random, DType::f32, {90, 3});
    expect_as_reference(query, key, value, {});
  }
}

// Scores that rise key by key make the running maximum move at every block, and at every slack.
TEST(ExtremeValues, RisingAndFallingScores) {
  Random random(base_seed());
  for (const double step : {0.001, 0.05, 0.6, 2.0, 50.0})
    for (const double sign : {1.0, -1.0}) {
      const Tensor query = filled(DType::f32, {18, 1}, 1);
      const Tensor key = mapped(filled(DType::f32, {400, 1}, 0), [&](double, auto i) {
        return sign * step * static_cast<double>(i[0]);
      });
      const Tensor value = random_normal(random, DType::f32, {400, 6});
      AttentionOptions options;
      options.scale = 1;
      expect_as_reference(query, key, value, options);
    }
}

}  // namespace
}  // namespace laws

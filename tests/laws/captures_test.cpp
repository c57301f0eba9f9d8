// Captures of rows with NaN, of scores far apart, and of long sums.
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "rapt/mask/causal.h"
#include "support/call.h"

namespace laws {
namespace {

// List entries without a key have weight 0, even in a row with a NaN.
TEST(Captures, NoWeightWithoutAKeyBesideNaN) {
  Random random(base_seed());
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    SCOPED_TRACE(rapt::name_of(dtype));
    const Tensor query = random_normal(random, dtype, {4, 5});
    const Tensor key = mapped(query, [](double x, auto i) {
      return i[0] == 1 ? std::numeric_limits<double>::quiet_NaN() : x;
    });
    const rapt::Causal causal;
    AttentionOptions options;
    options.masks = {&causal};
    options.top_k = 4;
    const AttentionResult got = scaled_dot_product_attention(query, key, query, options);
    for (int64_t i = 1; i < 4; ++i)
      for (int64_t k = 0; k < 4; ++k) {
        const double weight = get(got.top_weights, Dims{i, k});
        if (k <= i)
          EXPECT_TRUE(std::isnan(weight)) << i << ", " << k;
        else
          EXPECT_EQ(weight, 0) << i << ", " << k;
      }
  }
}

// Two groups of keys whose scores differ by more than the largest number: one has weight 0, and the
// entropy is the logarithm of the number of keys in the other.
TEST(Captures, EntropyOfScoresFarApart) {
  constexpr int64_t kFew = 100, kLen = 300;  // beyond the longest block
  const Tensor query = filled(DType::f32, {1, 1}, 1), value = filled(DType::f32, {kLen, 1}, 1);
  const Tensor key = mapped(filled(DType::f32, {kLen, 1}, 2e38),
                            [](double x, auto i) { return i[0] < kLen - kFew ? -x : x; });
  const Tensor bias = filled(DType::f32, {1, 1}, 0);
  AttentionOptions options;
  options.scale = 1;
  options.entropy = true;
  for (const bool natural_units : {false, true}) {
    if (natural_units) options.bias = bias;
    const AttentionResult got = scaled_dot_product_attention(query, key, value, options);
    EXPECT_NEAR(get(got.entropy, Dims{0}), std::log(kFew), 1e-6);
  }
}

// Cells of any size, whose boundaries tiles and blocks of keys cross anywhere, equal the pooled
// weights of the same call. A NaN propagates to every cell that contains one, and to no other.
TEST(Captures, MapsPoolTheWeights) {
  constexpr int64_t kQueries = 310, kKeys = 290, kSpoilt = 200;
  Random random(base_seed());
  const rapt::Causal causal;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor query = random_normal(random, dtype, {kQueries, 5});
    const Tensor value = random_normal(random, dtype, {kKeys, 5});
    const Tensor key = mapped(value, [](double x, auto i) {
      return i[0] == kSpoilt ? std::numeric_limits<double>::quiet_NaN() : x;
    });
    for (const auto& [rows, columns] : std::initializer_list<std::pair<int64_t, int64_t>>{
             {1, 1}, {2, 289}, {7, 3}, {80, 72}, {100, 131}, {309, 2}, {310, 290}})
      for (const auto pool : {rapt::Pool::mean, rapt::Pool::max, rapt::Pool::sum}) {
        SCOPED_TRACE(testing::Message() << rapt::name_of(dtype) << " map of " << rows << " x "
                                        << columns << ", pool " << static_cast<int>(pool));
        AttentionOptions options;
        options.masks = {&causal};
        options.weights = rapt::WeightsRequest{};
        options.map = rapt::MapRequest{rows, columns, pool, {}};
        const AttentionResult got = scaled_dot_product_attention(query, key, value, options);
        int wrong = 0;
        for (int64_t a = 0; a < rows; ++a)
          for (int64_t b = 0; b < columns; ++b) {
            double sum = 0, largest = 0, pairs = 0;
            for (int64_t i = a * kQueries / rows; i < (a + 1) * kQueries / rows; ++i)
              for (int64_t j = b * kKeys / columns; j < (b + 1) * kKeys / columns; ++j, ++pairs) {
                const double weight = get(got.weights, Dims{i, j});
                sum += weight;
                largest = std::fmax(largest, weight);
              }
            const double cell = get(got.map, Dims{a, b});
            const double expected = pool == rapt::Pool::max    ? largest
                                    : pool == rapt::Pool::mean ? sum / pairs
                                                               : sum;
            const double tolerance = dtype == DType::f32 ? 1e-5 : 1e-13;
            wrong += std::isnan(sum) ? !std::isnan(cell)
                                     : !(std::fabs(cell - expected) <= tolerance * expected);
          }
        EXPECT_EQ(wrong, 0) << "cells are not what their weights are";
      }
  }
}

// Exactly, whatever the number of pairs: a product with its reciprocal would not be.
TEST(Captures, TheMeanOfEqualWeightsIsTheirValue) {
  const Tensor key = filled(DType::f64, {1, 3}, 1);
  AttentionOptions options;
  options.map = rapt::MapRequest{1, 1, rapt::Pool::mean, {}};
  for (const int64_t queries : {1, 3, 49, 98, 103, 107, 1000}) {
    const AttentionResult got =
        scaled_dot_product_attention(filled(DType::f64, {queries, 3}, 1), key, key, options);
    EXPECT_EQ(get(got.map, Dims{0, 0}), 1) << queries;
  }
}

// A hundred million equal weights in one cell, ten thousand for each key: added one after the
// other in f32 they would lose four digits.
TEST(Captures, LongSumsKeepTheirDigits) {
  constexpr int64_t kLen = 10001;
  const Tensor x = filled(DType::f32, {kLen, 1}, 0);
  AttentionOptions options;
  options.map = rapt::MapRequest{1, 1, rapt::Pool::sum, {}};
  options.received = true;
  const AttentionResult got = scaled_dot_product_attention(x, x, x, options);
  EXPECT_NEAR(get(got.map, Dims{0, 0}) / kLen, 1, 5e-6);
  for (int64_t j = 0; j < kLen; j += 100) EXPECT_NEAR(get(got.received, Dims{j}), 1, 1e-6) << j;
}

}  // namespace
}  // namespace laws

// The numbers and shapes of the tutorials that introduce attention.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "rapt/attention.h"
#include "rapt/mask/causal.h"

namespace {

using rapt::DType;
using rapt::Tensor;
using rapt::TensorView;

std::vector<float> wave(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.7f * static_cast<float>(i));
  return values;
}

// embeddings [2, 3] times a projection [3, 2]
std::vector<float> project(const std::vector<float>& projection) {
  constexpr float kEmbeddings[2][3] = {{1, 2, 3}, {4, 5, 6}};
  std::vector<float> result(4, 0);
  for (size_t i = 0; i < 2; ++i)
    for (size_t c = 0; c < 2; ++c)
      for (size_t d = 0; d < 3; ++d) result[i * 2 + c] += kEmbeddings[i][d] * projection[d * 2 + c];
  return result;
}

// Two words, three projections, to the four decimals that are printed.
TEST(Tutorial, WorkedExample) {
  const std::vector<float> query = project({0.01f, 0.03f, 0.02f, 0.02f, 0.03f, 0.01f});
  const std::vector<float> key = project({0.05f, 0.05f, 0.06f, 0.05f, 0.07f, 0.05f});
  const std::vector<float> value = project({0.02f, 0.02f, 0.01f, 0.02f, 0.01f, 0.01f});
  rapt::AttentionOptions options;
  options.weights.emplace();
  const auto got = rapt::scaled_dot_product_attention(TensorView(query.data(), {2, 2}),
                                                      TensorView(key.data(), {2, 2}),
                                                      TensorView(value.data(), {2, 2}), options);
  const double weights[] = {0.4787, 0.5213, 0.4474, 0.5526};
  const double output[] = {0.1326, 0.1682, 0.1363, 0.1729};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(got.weights.values<float>()[i], weights[i], 0.00005);
    EXPECT_NEAR(got.output.values<float>()[i], output[i], 0.00005);
  }
}

// Weights of two words from their scores, with two exponentials and a division.
TEST(Tutorial, TwoByTwoByHand) {
  const std::vector<float> query = {1, 2, 3, 4}, key = {0.5f, 0.25f, -0.5f, 1},
                           value = {1, 2, 3, 4};
  rapt::AttentionOptions options;
  options.weights.emplace();
  const auto got = rapt::scaled_dot_product_attention(TensorView(query.data(), {2, 2}),
                                                      TensorView(key.data(), {2, 2}),
                                                      TensorView(value.data(), {2, 2}), options);
  for (size_t i = 0; i < 2; ++i) {
    double score[2];
    for (size_t j = 0; j < 2; ++j)
      score[j] = (query[2 * i] * key[2 * j] + query[2 * i + 1] * key[2 * j + 1]) / std::sqrt(2.0);
    const double first = 1 / (1 + std::exp(score[1] - score[0]));
    EXPECT_NEAR(got.weights.values<float>()[2 * i], first, 5e-7);
    EXPECT_NEAR(got.weights.values<float>()[2 * i + 1], 1 - first, 5e-7);
    EXPECT_NEAR(got.output.values<float>()[2 * i], first * 1 + (1 - first) * 3, 2e-6);
  }
}

// Scores chosen so that the weights are exactly 1/4 and 3/4.
TEST(Tutorial, OneToThree) {
  const float three = std::log(3.0f);
  const std::vector<float> query = {1}, key = {0, three}, value = {4, 8};
  rapt::AttentionOptions options;
  options.weights.emplace();
  const auto got = rapt::scaled_dot_product_attention(TensorView(query.data(), {1, 1}),
                                                      TensorView(key.data(), {2, 1}),
                                                      TensorView(value.data(), {2, 1}), options);
  EXPECT_NEAR(got.weights.values<float>()[0], 0.25, 1e-7);
  EXPECT_NEAR(got.weights.values<float>()[1], 0.75, 1e-7);
  EXPECT_NEAR(got.output.values<float>()[0], 7, 1e-6);
  EXPECT_NEAR(got.statistic.values<float>()[0], std::log(4.0), 1e-6);
}

// A batch of one, four words, eight features: weights [1, 4, 4] whose rows sum to 1.
TEST(Tutorial, OneByFourByEight) {
  const std::vector<float> x = wave(32);
  const TensorView view(x.data(), {1, 4, 8});
  rapt::AttentionOptions options;
  options.weights.emplace();
  const auto got = rapt::scaled_dot_product_attention(view, view, view, options);
  EXPECT_EQ(rapt::to_string(got.output.dims()), "[1, 4, 8]");
  EXPECT_EQ(rapt::to_string(got.weights.dims()), "[1, 4, 4]");
  EXPECT_EQ(rapt::to_string(got.statistic.dims()), "[1, 4]");
  for (size_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (size_t j = 0; j < 4; ++j) sum += got.weights.values<float>()[i * 4 + j];
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

// Five words with a causal mask: zeros above the diagonal, and the first word attends to itself
// alone.
TEST(Tutorial, OneByFiveByEightCausal) {
  const std::vector<float> x = wave(40);
  const TensorView view(x.data(), {1, 5, 8});
  const rapt::Causal causal;
  const rapt::Mask* masks[] = {&causal};
  rapt::AttentionOptions options;
  options.masks = masks;
  options.weights.emplace();
  const auto got = rapt::scaled_dot_product_attention(view, view, view, options);
  EXPECT_EQ(rapt::to_string(got.weights.dims()), "[1, 5, 5]");
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < 5; ++j) {
      const float weight = got.weights.values<float>()[i * 5 + j];
      EXPECT_EQ(weight > 0, j <= i) << i << " " << j;
    }
  EXPECT_EQ(got.weights.values<float>()[0], 1);
  for (size_t d = 0; d < 8; ++d) EXPECT_EQ(got.output.values<float>()[d], x[d]);
}

// One query with 20 features against ten keys, without a batch dimension.
TEST(Tutorial, OneQueryWithoutBatch) {
  const std::vector<float> q = wave(20), kv = wave(200);
  const TensorView query(q.data(), {1, 20}), keys(kv.data(), {10, 20});
  rapt::AttentionOptions options;
  options.weights.emplace();
  const auto got = rapt::scaled_dot_product_attention(query, keys, keys, options);
  EXPECT_EQ(rapt::to_string(got.output.dims()), "[1, 20]");
  EXPECT_EQ(rapt::to_string(got.weights.dims()), "[1, 10]");
  EXPECT_EQ(rapt::to_string(got.statistic.dims()), "[1]");
}

}  // namespace

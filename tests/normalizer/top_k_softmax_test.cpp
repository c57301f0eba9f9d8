// top_k_softmax is softmax under a mask that allows the k largest scores of each row; ties with the
// k-th all stay; its properties, and the parameters that it rejects.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "normalizer/entmax_oracle.h"
#include "rapt/normalizer/top_k_softmax.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace laws::entmax {
namespace {

using rapt::ErrorCode;
using rapt::TopKSoftmax;

std::string top(int64_t k) { return "top_k_softmax(" + std::to_string(k) + ")"; }

// Softmax, with a mask that leaves of each row the k largest scores and their equals.
Results softmax_of_largest(Problem& p, int64_t k) {
  Tensor largest = filled(DType::boolean, {p.q_len, p.k_len}, 0);
  for (int64_t i = 0; i < p.q_len; ++i) {
    const Row scores = p.scores(i);
    Row falling;
    for (int64_t j = 0; j < p.k_len; ++j)
      if (get(p.allowed, Dims{i, j}) != 0) falling.push_back(scores[static_cast<size_t>(j)]);
    std::ranges::sort(falling, std::greater<>());
    const auto last = std::min(static_cast<size_t>(k), falling.size());
    for (int64_t j = 0; j < p.k_len; ++j)
      set(largest, Dims{i, j},
          get(p.allowed, Dims{i, j}) != 0 && scores[static_cast<size_t>(j)] >= falling[last - 1]);
  }
  std::swap(p.allowed, largest);
  Results results = results_of(p, "softmax");
  std::swap(p.allowed, largest);
  return results;
}

// Elements that differ by roundings of sums of at most 700 terms near 1.
void expect_near(const char* name, const Tensor& got, const Tensor& expected, double tolerance) {
  for_each_index(got.dims(), [&](auto at) {
    const double right = get(expected, at), one = get(got, at);
    if (right == one) return;
    ASSERT_NEAR(one, right, tolerance * (1 + std::abs(right))) << name;
  });
}

void expect_same(const Results& got, const Results& expected, double tolerance) {
  expect_near("output", got.forward.output, expected.forward.output, tolerance);
  expect_near("lse", got.forward.statistic, expected.forward.statistic, tolerance);
  expect_near("weights", got.forward.weights, expected.forward.weights, tolerance);
  for_each_index(got.forward.weights.dims(), [&](auto at) {
    if (get(expected.forward.weights, at) == 0) {
      ASSERT_EQ(get(got.forward.weights, at), 0);
    }
  });
  expect_near("received", got.forward.received, expected.forward.received, tolerance);
  expect_near("d_query", got.gradients.d_query, expected.gradients.d_query, tolerance);
  expect_near("d_key", got.gradients.d_key, expected.gradients.d_key, tolerance);
  expect_near("d_value", got.gradients.d_value, expected.gradients.d_value, tolerance);
  expect_near("d_scale", got.gradients.d_scale, expected.gradients.d_scale, 100 * tolerance);
}

TEST(TopKSoftmax, IsSoftmaxOverTheLargest) {
  Random random(base_seed());
  for (const int64_t k : {1, 2, 7, 64, 300})
    for (const double spread : {0.1, 1.0, 6.0})
      for (const auto& [q_len, k_len] : {std::pair{1, 1}, {5, 40}, {70, 130}, {40, 700}}) {
        Problem p(random, DType::f64, q_len, k_len, spread, random.chance(0.5) ? 1 : 0.6);
        for (int64_t j = 0; j < k_len; ++j) set(p.allowed, Dims{0, j}, 0);  // without keys
        SCOPED_TRACE(testing::Message()
                     << "k " << k << " spread " << spread << ", " << q_len << " x " << k_len);
        const Results got = results_of(p, top(k).c_str());
        expect_same(got, softmax_of_largest(p, k), 1e-12);
        const Results two = results_of(p, top(k).c_str(), true, rapt::BackwardPasses::two);
        ASSERT_TRUE(same_bits(two.gradients.d_query, got.gradients.d_query));
        ASSERT_TRUE(same_bits(two.gradients.d_key, got.gradients.d_key));
        ASSERT_TRUE(same_bits(two.gradients.d_value, got.gradients.d_value));
        ASSERT_FALSE(testing::Test::HasFailure());
      }
}

// More of them than a short list holds: k itself, or scores that are equal.
TEST(TopKSoftmax, LongRows) {
  Random random(base_seed());
  for (const int64_t k : {5, 2500}) {
    Problem p(random, DType::f64, 21, 3000, 1, 1, 4, 3);
    for (int64_t i = 0; i < p.q_len; i += 3)
      for (int64_t d = 0; d < p.head_dim; ++d) set(p.query, Dims{i, d}, 0);
    const Results got = results_of(p, top(k).c_str());
    expect_same(got, softmax_of_largest(p, k), 1e-11);
    EXPECT_NEAR(get(got.forward.weights, Dims{0, 2999}), 1.0 / 3000, 1e-12);  // all are equal
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// Scores with few distinct values: many keys tie with the k-th largest score. All of them stay,
// wherever they stand.
TEST(TopKSoftmax, TiesAllHaveAWeight) {
  Random random(base_seed());
  for (const DType dtype : {DType::f64, DType::f32})
    for (const int64_t k : {1, 4, 50}) {
      Problem p(random, dtype, 33, 400, 1, 0.9, 1, 2);
      p.scale = 1;
      for (int64_t i = 0; i < p.q_len; ++i)
        set(p.query, Dims{i, 0}, static_cast<double>(random.between(-2, 2)));
      for (int64_t j = 0; j < p.k_len; ++j)
        set(p.key, Dims{j, 0}, static_cast<double>(random.between(-2, 2)));
      const Results got = results_of(p, top(k).c_str());
      expect_same(got, softmax_of_largest(p, k), dtype == DType::f64 ? 1e-12 : 1e-4);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
}

TEST(TopKSoftmax, FewKeysAreSoftmax) {
  Random random(base_seed());
  const Problem p(random, DType::f64, 30, 90, 2, 0.8);
  expect_same(results_of(p, top(90).c_str()), results_of(p, "softmax"), 1e-13);
  expect_same(results_of(p, top(int64_t{1} << 53).c_str()), results_of(p, "softmax"), 1e-13);
  const Results one = results_of(p, top(1).c_str());
  for (int64_t i = 0; i < p.q_len; ++i) {
    double most = 0;
    for (int64_t j = 0; j < p.k_len; ++j)
      most = std::max(most, get(one.forward.weights, Dims{i, j}));
    EXPECT_EQ(most, 1);
  }
}

// A row of many keys whose sum takes as few roundings one after the other as that of softmax does:
// parts of 128 keys, and the parts.
TEST(TopKSoftmax, LongSums) {
  constexpr int64_t kKeys = 131072;
  const TopKSoftmax normalizer(kKeys);
  AttentionOptions top_k, softmax;
  top_k.normalizer = normalizer;
  Tensor key(DType::f32, {kKeys, 1});
  const Tensor one = filled(DType::f32, {1, 1}, 1), value = filled(DType::f32, {kKeys, 1}, 0);
  for (const double score : {-0.1875, -0.25, -0.875}) {
    for (int64_t j = 0; j < kKeys; ++j) set(key, Dims{j, 0}, score);
    set(key, Dims{5, 0}, 0);
    const double expected = std::log1p(std::exp(score) * (kKeys - 1));
    // The logarithm of the sum, and both again of e^s and the result.
    const double allowed = (128 + kKeys / 128 + 8) * 0x1p-24 + 4 * 0x1p-21;
    for (const AttentionOptions* options : {&top_k, &softmax})
      EXPECT_NEAR(get(scaled_dot_product_attention(one, key, value, *options).statistic, Dims{0}),
                  expected, allowed)
          << score;
  }
}

// A bias, scores, dropout and gradients of the weights ask for whole tiles, which find the
// gradients that pairs alone give: by differences.
TEST(TopKSoftmax, WholeTilesGiveTheSameGradients) {
  Random random(base_seed());
  for (const int64_t k : {3, 20}) {
    Problem p(random, DType::f64, 60, 150, 3, 0.9);
    const rapt::Boolean mask(p.allowed);
    const TopKSoftmax normalizer(k);
    const rapt::Softcap softcap(5);
    const Tensor d_weights = random_normal(random, DType::f64, {p.q_len, p.k_len});
    Tensor bias = random_normal(random, DType::f64, {p.q_len, p.k_len});
    AttentionOptions options;
    options.normalizer = normalizer;
    options.masks = {&mask};
    options.scale = p.scale;
    options.bias = bias;
    options.scores = {softcap};
    options.dropout = {0.3, 5};
    options.weights.emplace();
    AttentionResult forward = scaled_dot_product_attention(p.query, p.key, p.value, options);
    BackwardInputs inputs;
    inputs.state = forward.state();
    inputs.d_output = p.d_output;
    inputs.d_statistic = p.d_statistic;
    inputs.d_weights = d_weights;
    BackwardRequest request;
    request.bias = true;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(p.query, p.key, p.value, options, inputs, request);
    expect_differences_with_bias(p, bias, d_weights, options, g);
  }
}

// The backward pass finds the cut in no more memory than all keys take, and without any where all
// keys have a weight.
TEST(TopKSoftmax, WorkspaceOfTheCut) {
  constexpr int64_t kKeys = 5000;
  const Tensor query = filled(DType::f32, {40, 8}, 1), key = filled(DType::f32, {kKeys, 8}, 1);
  const auto bytes = [&](int64_t k) {
    const TopKSoftmax normalizer(k);
    AttentionOptions options;
    options.normalizer = normalizer;
    return rapt::backward_workspace_bytes(query, key, key, options);
  };
  EXPECT_LT(bytes(1), bytes(1000));
  EXPECT_LT(bytes(1000), bytes(kKeys / 2));
  EXPECT_EQ(bytes(kKeys / 2), bytes(kKeys - 1));
  EXPECT_LT(bytes(kKeys), bytes(1));
  EXPECT_EQ(bytes(kKeys), bytes(int64_t{1} << 53));
}

// A row's bits do not depend on its neighbours: alone, in a batch, with more threads.
TEST(TopKSoftmax, BitsAreTheRowsOwn) {
  Random random(base_seed());
  const int64_t k_len = RAPT_SANITIZED ? 2300 : 4100;
  Problem p(random, DType::f32, 130, k_len, 1, 1, 8, 9);
  for (int64_t i = 0; i < p.q_len; i += 5)
    for (int64_t d = 0; d < p.head_dim; ++d) set(p.query, Dims{i, d}, 0);
  const std::string text = top(12);
  const Results all = results_of(p, text.c_str(), true, rapt::BackwardPasses::one, 1);
  const Results threads = results_of(p, text.c_str(), true, rapt::BackwardPasses::one, 2);
  ASSERT_TRUE(same_results(threads.forward, all.forward));
  ASSERT_TRUE(same_bits(threads.gradients.d_query, all.gradients.d_query));
  ASSERT_TRUE(same_bits(threads.gradients.d_key, all.gradients.d_key));
  const TopKSoftmax normalizer(12);
  AttentionOptions options;
  options.normalizer = normalizer;
  options.scale = p.scale;
  for (const int64_t i : {0, 1, 17, 100, 129}) {
    const AttentionResult one =
        scaled_dot_product_attention(p.query.view().slice(0, i, i + 1), p.key, p.value, options);
    for (int64_t d = 0; d < p.value_dim; ++d)
      ASSERT_EQ(get(one.output, Dims{0, d}), get(all.forward.output, Dims{i, d})) << i;
  }
}

// A masked NaN never leaks, an unmasked one of a key shows, also where NaN fill the list of the
// cut; values without a weight are not read.
TEST(TopKSoftmax, NonFiniteNumbers) {
  Random random(base_seed());
  Problem p(random, DType::f32, 21, 900, 2, 1);
  for (int64_t i = 0; i < p.q_len; ++i)
    for (int64_t j = 70; j < 800; ++j) set(p.allowed, Dims{i, j}, 0);
  const Results clean = results_of(p, top(6).c_str());
  for (const double bad : {kInfinity, kNaN}) {
    for (int64_t j = 70; j < 800; ++j) {
      for (int64_t d = 0; d < p.head_dim; ++d) set(p.key, Dims{j, d}, bad);
      for (int64_t d = 0; d < p.value_dim; ++d) set(p.value, Dims{j, d}, bad);
    }
    const Results masked = results_of(p, top(6).c_str());
    ASSERT_TRUE(same_results(masked.forward, clean.forward));
    ASSERT_TRUE(same_bits(masked.gradients.d_query, clean.gradients.d_query));
    ASSERT_TRUE(same_bits(masked.gradients.d_value, clean.gradients.d_value));
  }
  for (int64_t j = 70; j < 800; ++j) set(p.allowed, Dims{4, j}, 1);
  const Results shown = results_of(p, top(6).c_str());
  for (int64_t i = 0; i < p.q_len; ++i)
    ASSERT_EQ(std::isnan(get(shown.forward.output, Dims{i, 0})), i == 4) << i;
  EXPECT_TRUE(std::isnan(get(shown.gradients.d_query, Dims{4, 0})));

  Problem q(random, DType::f32, 3, 200, 4, 1);
  const Results before = results_of(q, top(4).c_str());
  for (int64_t j = 0; j < q.k_len; ++j)
    if (get(before.forward.received, Dims{j}) == 0)
      for (int64_t d = 0; d < q.value_dim; ++d) set(q.value, Dims{j, d}, kNaN);
  const Results after = results_of(q, top(4).c_str());
  EXPECT_TRUE(same_results(after.forward, before.forward));
  EXPECT_TRUE(same_bits(after.gradients.d_query, before.gradients.d_query));
}

TEST(TopKSoftmax, BadInput) {
  expect_error(ErrorCode::argument, {"top_k_softmax", "k is missing"},
               [] { rapt::make_normalizer("top_k_softmax"); });
  expect_error(ErrorCode::argument, {"top_k_softmax", "k = 0"},
               [] { rapt::make_normalizer("top_k_softmax(0)"); });
  expect_error(ErrorCode::argument, {"top_k_softmax", "2.5"},
               [] { rapt::make_normalizer("top_k_softmax(2.5)"); });
  const Tensor t = filled(DType::f32, {2, 2}, 1);
  const TopKSoftmax not_given, two(2);
  AttentionOptions options;
  options.normalizer = not_given;
  expect_error(ErrorCode::argument, {"top_k_softmax", "k = 0"},
               [&] { scaled_dot_product_attention(t, t, t, options); });
  options.normalizer = two;
  TensorView far = t;  // lists count keys in 32 bits
  far.shape[0] = int64_t{1} << 31;
  far.strides[0] = 0;
  expect_error(ErrorCode::unsupported, {"top_k_softmax", "2147483648 keys"},
               [&] { rapt::plan(t, far, far, options); });
  expect_error(ErrorCode::unsupported, {"top_k_softmax", "2147483648 keys"},
               [&] { (void)rapt::backward_workspace_bytes(t, far, far, options); });
  AttentionResult one = scaled_dot_product_attention(t, t, t, options),
                  other = scaled_dot_product_attention(t, t, t, options);
  expect_error(ErrorCode::unsupported, {"top_k_softmax"},
               [&] { rapt::merge(one.state(), other.state(), two); });
  BackwardInputs inputs;
  inputs.state = one.state();
  inputs.d_output = t;
  BackwardRequest request;
  request.normalizer_parameters = true;
  expect_error(ErrorCode::unsupported, {"top_k_softmax", "have no gradients"},
               [&] { scaled_dot_product_attention_backward(t, t, t, options, inputs, request); });
  options.entropy = true;
  expect_error(ErrorCode::unsupported, {"top_k_softmax"},
               [&] { scaled_dot_product_attention(t, t, t, options); });
}

}  // namespace
}  // namespace laws::entmax

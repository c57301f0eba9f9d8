// sigmoid and relu, whose weights depend on their own score alone: known weights, consequences of
// independent keys, and requests that need a sum over the row and are rejected.
#include <gtest/gtest.h>

#include <cmath>

#include "rapt/backward.h"
#include "rapt/catalogue.h"
#include "rapt/mask/causal.h"
#include "rapt/tangents.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;

AttentionOptions weighed_by(const rapt::NormalizerRef& normalizer) {
  AttentionOptions options;
  options.normalizer = normalizer;
  options.scale = 1.0;
  options.weights.emplace();
  return options;
}

// One query of 1 whose keys are the scores, and values of 1.
std::vector<double> weights_of(const std::vector<double>& scores,
                               const rapt::NormalizerRef& normalizer) {
  const auto n = static_cast<int64_t>(scores.size());
  Tensor key(DType::f64, {n, 1});
  std::ranges::copy(scores, key.values<double>().begin());
  const Tensor one = filled(DType::f64, {1, 1}, 1), value = filled(DType::f64, {n, 1}, 1);
  const AttentionResult r = scaled_dot_product_attention(one, key, value, weighed_by(normalizer));
  double sum = 0;
  for (const double w : values_of(r.weights)) sum += w;
  EXPECT_NEAR(values_of(r.output)[0], sum, 1e-14 * (1 + sum));
  EXPECT_EQ(values_of(r.statistic), std::vector<double>{0});
  return values_of(r.weights);
}

Tensor rows_of(const Tensor& t, int64_t begin, int64_t end) {
  Dims rows;
  for (int64_t i = begin; i < end; ++i) rows.push_back(i);
  return taken(t, 0, rows);
}

struct Inputs {
  Tensor query, key, value;

  static Inputs random(Random& random, int64_t q_len, int64_t k_len, DType dtype = DType::f64) {
    return {random_normal(random, dtype, {q_len, 5}), random_normal(random, dtype, {k_len, 5}),
            random_normal(random, dtype, {k_len, 3})};
  }
  // The first q_len queries, and keys [begin, end).
  Inputs part(int64_t q_len, int64_t begin, int64_t end) const {
    return {rows_of(query, 0, q_len), rows_of(key, begin, end), rows_of(value, begin, end)};
  }
  AttentionResult attend(const AttentionOptions& options) const {
    return scaled_dot_product_attention(query, key, value, options);
  }
};

TEST(Sigmoid, KnownWeights) {
  rapt::Sigmoid sigmoid;
  // -ln n for n keys: each score of 0 has e^-ln n / (1 + e^-ln n).
  for (const double w : weights_of({0, 0, 0, 0}, sigmoid)) EXPECT_NEAR(w, 0.2, 1e-15);
  sigmoid.bias = 0;
  const std::vector<double> w = weights_of({0, std::log(3.0), -1000, 1000}, sigmoid);
  EXPECT_NEAR(w[0], 0.5, 1e-15);
  EXPECT_NEAR(w[1], 0.75, 1e-15);
  EXPECT_EQ(w[2], 0);
  EXPECT_EQ(w[3], 1);
}

TEST(Sigmoid, SmallWeightsHaveAllTheirDigits) {
  rapt::Sigmoid sigmoid;
  sigmoid.bias = -30;
  // 1 / (1 + e^30). The form 1/2 + tanh(-15) / 2 would keep only three digits of it.
  EXPECT_NEAR(weights_of({0}, sigmoid)[0] * (1 + std::exp(30.0)), 1, 1e-14);
}

TEST(Relu, KnownWeights) {
  rapt::Relu relu;
  EXPECT_EQ(weights_of({1, -2, 0, 6}, relu), (std::vector<double>{0.25, 0, 0, 1.5}));
  relu.divisor = 2;
  EXPECT_EQ(weights_of({1, -2, 0, 6}, relu), (std::vector<double>{0.5, 0, 0, 3}));
  relu.power = 2;
  EXPECT_EQ(weights_of({1, -2, 0, 6}, relu), (std::vector<double>{0.5, 0, 0, 18}));
  relu = {2};
  EXPECT_EQ(weights_of({1, -2, 0, 6}, relu), (std::vector<double>{0.25, 0, 0, 9}));
}

// Keys without a weight, including whole blocks of them, change nothing.
TEST(Relu, KeysWithoutWeightAddNothing) {
  Random random(base_seed());
  Inputs in = Inputs::random(random, 20, 700, DType::f32);
  for_each_index(in.query.dims(), [&](auto i) { set(in.query, i, std::abs(get(in.query, i))); });
  for_each_index(in.key.dims(), [&](auto i) {
    const double size = std::abs(get(in.key, i));
    set(in.key, i, i[0] < 150 ? size : -size);
  });
  rapt::Relu relu;
  relu.divisor = 100;
  AttentionOptions options;
  options.normalizer = relu;
  const AttentionResult got = in.attend(options);
  EXPECT_TRUE(same_results(got, in.part(20, 0, 150).attend(options)));
}

template <class N>
class PointwiseNormalizers : public testing::Test {
 public:
  static N given() {
    N normalizer;
    if constexpr (requires { normalizer.bias; })
      normalizer.bias = -2.5;
    else
      normalizer.divisor = 11, normalizer.power = 2;
    return normalizer;
  }
  // The default parameters for n keys.
  static N of_length(int64_t n) {
    N normalizer;
    if constexpr (requires { normalizer.bias; })
      normalizer.bias = -std::log(static_cast<double>(n));
    else
      normalizer.divisor = static_cast<double>(n);
    return normalizer;
  }
};
using Pointwise = testing::Types<rapt::Sigmoid, rapt::Relu>;
TYPED_TEST_SUITE(PointwiseNormalizers, Pointwise);

TYPED_TEST(PointwiseNormalizers, PartsOfTheKeysAreAdded) {
  Random random(base_seed());
  const TypeParam normalizer = this->given();
  for (const int64_t cut : {1, 100, 128, 299}) {
    const Inputs in = Inputs::random(random, 9, 300);
    const AttentionResult whole = in.attend(weighed_by(normalizer));
    const AttentionResult a = in.part(9, 0, cut).attend(weighed_by(normalizer)),
                          b = in.part(9, cut, 300).attend(weighed_by(normalizer));
    // The weights are the same to the bit; the sums of 300 numbers near 1 differ by their order.
    EXPECT_TRUE(same_bits(concatenated(a.weights, b.weights, 1), whole.weights));
    const std::vector<double> sum_a = values_of(a.output), sum_b = values_of(b.output),
                              sum = values_of(whole.output);
    for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum_a[i] + sum_b[i], sum[i], 1e-12);
  }
}

TYPED_TEST(PointwiseNormalizers, WhatIsNotGivenIsThatOfAllKeys) {
  Random random(base_seed());
  const Inputs in = Inputs::random(random, 40, 130, DType::f32);
  const rapt::Causal causal;
  for (const bool masked : {false, true}) {
    AttentionOptions options, same;
    const TypeParam left_out, given = this->of_length(130);
    options.normalizer = left_out, same.normalizer = given;
    if (masked) options.masks = same.masks = {&causal};
    EXPECT_TRUE(same_results(in.attend(options), in.attend(same)));
  }
}

// With a given parameter, a causal row does not depend on the number of later keys.
TYPED_TEST(PointwiseNormalizers, APrefixIsThePrefix) {
  Random random(base_seed());
  const TypeParam normalizer = this->given();
  const rapt::Causal causal;
  AttentionOptions options;
  options.normalizer = normalizer;
  options.masks = {&causal};
  const Inputs in = Inputs::random(random, 200, 200, DType::f32);
  const AttentionResult whole = in.attend(options);
  EXPECT_TRUE(same_bits(in.part(77, 0, 77).attend(options).output, rows_of(whole.output, 0, 77)));
}

TYPED_TEST(PointwiseNormalizers, WithoutKeysThereIsNothing) {
  const Tensor query = filled(DType::f32, {3, 2}, 1), none(DType::f32, {0, 2});
  const TypeParam normalizer;
  AttentionOptions options;
  options.normalizer = normalizer;
  const AttentionResult r = scaled_dot_product_attention(query, none, none, options);
  for (const double x : values_of(r.output)) EXPECT_EQ(x, 0);
  for (const double x : values_of(r.statistic)) EXPECT_EQ(x, 0);
}

TYPED_TEST(PointwiseNormalizers, WhatNeedsADistributionOrAnLseIsRefused) {
  const Tensor t = filled(DType::f32, {2, 2}, 1), numbers = filled(DType::f32, {2}, 1);
  const TypeParam normalizer;
  const char* const name = TypeParam::kDeclaration.name;
  AttentionOptions options;
  options.normalizer = normalizer;
  AttentionResult one = scaled_dot_product_attention(t, t, t, options),
                  other = scaled_dot_product_attention(t, t, t, options);
  expect_error(ErrorCode::unsupported, {"merge", name},
               [&] { rapt::merge(one.state(), other.state(), normalizer); });
  rapt::BackwardInputs inputs;
  inputs.state = one.state();
  inputs.d_output = t;
  inputs.d_statistic = numbers;
  expect_error(ErrorCode::unsupported, {"d_statistic", name, "no statistic"},
               [&] { scaled_dot_product_attention_backward(t, t, t, options, inputs); });
  inputs.d_statistic = {};
  rapt::OutputTangents tangents;
  tangents.d_statistic = numbers;
  expect_error(ErrorCode::unsupported, {"output_tangents.d_statistic", name},
               [&] { rapt::attention_backward_jvp(t, t, t, options, inputs, {}, tangents); });
  options.entropy = true;
  expect_error(ErrorCode::unsupported, {name, "entropy"},
               [&] { scaled_dot_product_attention(t, t, t, options); });
}

TEST(Sigmoid, ByName) {
  const auto bias_of = [](const char* text) {
    return static_cast<const rapt::Sigmoid*>(rapt::make_normalizer(text).object.get())->bias;
  };
  EXPECT_TRUE(std::isnan(bias_of("sigmoid")));
  EXPECT_EQ(bias_of("sigmoid(-5)"), -5);
  EXPECT_EQ(bias_of("sigmoid:bias=0.5"), 0.5);
  for (const char* const text : {"sigmoid(1e31)", "sigmoid(inf)", "sigmoid(nan)", "sigmoid(a)",
                                 "sigmoid(1,2)", "sigmoid(slope=1)"})
    expect_error(ErrorCode::argument, {"sigmoid"}, [&] { rapt::make_normalizer(text); });
}

TEST(Relu, ByName) {
  const auto relu_of = [](const char* text) {
    return *static_cast<const rapt::Relu*>(rapt::make_normalizer(text).object.get());
  };
  EXPECT_EQ(relu_of("relu").power, 1);
  EXPECT_TRUE(std::isnan(relu_of("relu(2)").divisor));
  EXPECT_EQ(relu_of("relu(2,64)").power, 2);
  EXPECT_EQ(relu_of("relu(2,64)").divisor, 64);
  EXPECT_EQ(relu_of("relu:divisor=0.5").divisor, 0.5);
  for (const char* const text :
       {"relu(0)", "relu(3)", "relu(divisor=0)", "relu(divisor=-1)", "relu(divisor=nan)"})
    expect_error(ErrorCode::argument, {"relu"}, [&] { rapt::make_normalizer(text); });
}

// NaN, given in C++, means "not given"; other invalid numbers are rejected.
TEST(Relu, ParametersOutOfRangeAreRefused) {
  const Tensor t = filled(DType::f32, {2, 2}, 1);
  for (const rapt::Relu& bad : {rapt::Relu{0}, rapt::Relu{3}, rapt::Relu{1, 0.0},
                                rapt::Relu{1, INFINITY}, rapt::Relu{1, -2.0}}) {
    AttentionOptions options;
    options.normalizer = bad;
    expect_error(ErrorCode::argument, {"relu", "out of range"},
                 [&] { scaled_dot_product_attention(t, t, t, options); });
  }
}

}  // namespace
}  // namespace laws

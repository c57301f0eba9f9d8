// Feature maps of the caller's own in linear attention: results and gradients are those of the same
// map of the catalogue, or of the weights that it makes; masked NaN does not show; threads change
// no bit.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <utility>

#include "linear_inputs.h"
#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/method/linear.h"
#include "support/executors.h"

namespace laws {
namespace {

// The map elu as two functions: the same loops in double.
struct OwnElu {
  static void apply(const void* calls, const double* x, int64_t dims, double* phi) noexcept {
    static_cast<std::atomic<int>*>(const_cast<void*>(calls))->fetch_add(1);
    for (int64_t i = 0; i < dims; ++i) phi[i] = x[i] > 0 ? x[i] + 1 : std::exp(x[i]);
  }
  static void backward(const void*, const double* x, int64_t dims, const double* phi,
                       const double* d_phi, double* d_x) noexcept {
    for (int64_t i = 0; i < dims; ++i) d_x[i] = d_phi[i] * (x[i] > 0 ? 1 : phi[i]);
  }
};

// The weights of taylor, 1 + s + s^2 / 2, from all pairs of dimensions in place of half of them:
// 1 + d + d^2 features.
struct OwnTaylor {
  static constexpr double kHalfRoot = 0.70710678118654752;  // 1 / sqrt(2)
  static constexpr int64_t features(int64_t dims) { return 1 + dims + dims * dims; }

  static void apply(const void*, const double* x, int64_t dims, double* phi) noexcept {
    phi[0] = 1;
    for (int64_t i = 0; i < dims; ++i) phi[1 + i] = x[i];
    for (int64_t i = 0; i < dims; ++i)
      for (int64_t j = 0; j < dims; ++j) phi[1 + dims + i * dims + j] = kHalfRoot * x[i] * x[j];
  }
  static void backward(const void*, const double* x, int64_t dims, const double*,
                       const double* d_phi, double* d_x) noexcept {
    const double* const of_pairs = d_phi + 1 + dims;
    for (int64_t i = 0; i < dims; ++i) {
      d_x[i] = d_phi[1 + i];
      for (int64_t j = 0; j < dims; ++j)
        d_x[i] += kHalfRoot * x[j] * (of_pairs[i * dims + j] + of_pairs[j * dims + i]);
    }
  }
};

// Products of pairs of dimensions: weights (x . y)^2. It has no backward function.
struct OwnPairs {
  static void apply(const void*, const double* x, int64_t dims, double* phi) noexcept {
    for (int64_t i = 0; i < dims; ++i)
      for (int64_t j = 0; j < dims; ++j) phi[i * dims + j] = x[i] * x[j];
  }
};

struct OwnResults {
  AttentionResult forward;
  rapt::Gradients gradients;
};

// The gradients are those of half the sum of squares of the output.
OwnResults results_of(const LinearInputs& in, const rapt::Linear& linear, bool is_causal,
                      const Context& context = {}) {
  const rapt::Causal causal;
  AttentionOptions options{.method = &linear};
  if (is_causal) options.masks = {&causal};
  OwnResults results;
  results.forward = scaled_dot_product_attention(in.query, in.key, in.value, options, context);
  rapt::BackwardInputs inputs;
  inputs.state = results.forward.state(), inputs.d_output = results.forward.output;
  results.gradients = scaled_dot_product_attention_backward(in.query, in.key, in.value, options,
                                                            inputs, {}, context);
  return results;
}

void expect_near(const Tensor& got, const Tensor& expected, double roundings) {
  double largest = 0;
  for (const float x : expected.values<float>()) largest = std::max<double>(largest, std::abs(x));
  for (size_t i = 0; i < got.values<float>().size(); ++i)
    ASSERT_NEAR(got.values<float>()[i], expected.values<float>()[i], roundings * 0x1p-23 * largest)
        << i;
}

void expect_results_near(const OwnResults& got, const OwnResults& expected, double roundings,
                         double of_gradients) {
  expect_near(got.forward.output, expected.forward.output, roundings);
  expect_near(got.gradients.d_query, expected.gradients.d_query, of_gradients);
  expect_near(got.gradients.d_key, expected.gradients.d_key, of_gradients);
  expect_near(got.gradients.d_value, expected.gradients.d_value, of_gradients);
}

TEST(OwnFeatures, HaveTheResultsOfTheCatalogue) {
  const LinearInputs in(2);
  std::atomic<int> calls = 0;
  const rapt::OwnFeatures elu{
      .features = 8, .apply = OwnElu::apply, .backward = OwnElu::backward, .user = &calls};
  rapt::Linear own, listed;
  own.own = &elu;
  // Features differ by 4 roundings at most (e^x in f32), of query and key, above and below the
  // division; a gradient reads features of three tokens.
  for (const bool is_causal : {false, true})
    expect_results_near(results_of(in, own, is_causal), results_of(in, listed, is_causal), 16, 64);
  EXPECT_GE(calls, 4 * kTokens);
}

// Other features than those of the catalogue, and more, which make the same weights.
TEST(OwnFeatures, MayBeMoreThanTheDimensions) {
  const LinearInputs in(1);
  const rapt::OwnFeatures taylor{.features = OwnTaylor::features(8),
                                 .apply = OwnTaylor::apply,
                                 .backward = OwnTaylor::backward};
  rapt::Linear own, listed;
  own.own = &taylor, listed.map = rapt::LinearMap::taylor;
  // A weight is at least half of the sum of the sizes of its 73 terms, each rounded once.
  for (const bool is_causal : {false, true})
    expect_results_near(results_of(in, own, is_causal), results_of(in, listed, is_causal), 4 * 73,
                        16 * 73);
}

// Features that no map of the catalogue has, beside the sums of their weights.
TEST(OwnFeatures, NeedABackwardFunctionForGradientsAlone) {
  const LinearInputs in(1);
  const rapt::OwnFeatures pairs{.features = 64, .apply = OwnPairs::apply};
  rapt::Linear linear;
  linear.own = &pairs;
  const AttentionOptions options{.scale = 1, .method = &linear};
  AttentionResult got = scaled_dot_product_attention(in.query, in.key, in.value, options);
  for (const int64_t i : {int64_t{0}, int64_t{77}, kTokens - 1}) {
    double sum = 0, weights = 0, size = 0;
    for (int64_t j = 0; j < kTokens; ++j) {
      double score = 0;
      for (int64_t d = 0; d < 8; ++d)
        score += get(in.query, Dims{0, i, d}) * get(in.key, Dims{0, j, d});
      const double v = get(in.value, Dims{0, j, 2});
      sum += score * score * v, weights += score * score, size += score * score * std::abs(v);
    }
    // 64 features of which each product rounds once, whose signs cancel by less than 64.
    EXPECT_NEAR(get(got.output, Dims{0, i, 2}), sum / weights, 64 * 0x1p-23 * size / weights);
  }
  rapt::BackwardInputs inputs;
  inputs.state = got.state(), inputs.d_output = got.output;
  try {
    (void)scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs);
    ADD_FAILURE() << "accepted";
  } catch (const rapt::Error& error) {
    EXPECT_STREQ(error.argument(), "own");
  }
  const rapt::OwnFeatures none;
  linear.own = &none;
  EXPECT_THROW((void)scaled_dot_product_attention(in.query, in.key, in.value, options),
               rapt::Error);
}

// A token that is NaN shows in itself and behind it: as a query in its row, as a key and as a value
// in all queries from it on. The gradients of what comes before it have no NaN from a masked pair.
TEST(OwnFeatures, MaskedNanDoesNotShow) {
  constexpr int64_t kToken = 70;
  std::atomic<int> calls = 0;
  const rapt::OwnFeatures elu{
      .features = 8, .apply = OwnElu::apply, .backward = OwnElu::backward, .user = &calls};
  rapt::Linear linear;
  linear.own = &elu;
  const LinearInputs plain(1);
  const AttentionResult expected = results_of(plain, linear, true).forward;
  for (Tensor LinearInputs::*const input :
       {&LinearInputs::query, &LinearInputs::key, &LinearInputs::value}) {
    LinearInputs in(1);
    set(in.*input, Dims{0, kToken, 2}, std::numeric_limits<double>::quiet_NaN());
    const OwnResults got = results_of(in, linear, true);
    const bool of_query = input == &LinearInputs::query, of_value = input == &LinearInputs::value;
    for (const int64_t i : {int64_t{0}, int64_t{63}, int64_t{64}, kToken - 1, kToken, kToken + 1,
                            int64_t{128}, kTokens - 1}) {
      const bool shows = of_query ? i == kToken : i >= kToken;
      EXPECT_EQ(std::isnan(get(got.forward.output, Dims{0, i, 2})), shows) << i;
      EXPECT_EQ(std::isnan(get(got.forward.output, Dims{0, i, 1})), shows && !of_value) << i;
      if (!shows) {
        EXPECT_EQ(get(got.forward.output, Dims{0, i, 2}), get(expected.output, Dims{0, i, 2})) << i;
      }
      EXPECT_EQ(std::isnan(get(got.gradients.d_query, Dims{0, i, 2})), shows) << i;
    }
    // d_output is NaN from the token on, or at it: it reaches the keys that these queries attend
    // to.
    const int64_t last = of_query ? kToken : kTokens - 1;
    for (const int64_t j : {int64_t{0}, kToken, kToken + 1, kTokens - 1})
      EXPECT_EQ(std::isnan(get(got.gradients.d_value, Dims{0, j, 2})), j <= last) << j;
  }
}

TEST(OwnFeatures, ThreadsChangeNoBit) {
  std::atomic<int> calls = 0;
  const rapt::OwnFeatures elu{
      .features = 8, .apply = OwnElu::apply, .backward = OwnElu::backward, .user = &calls};
  rapt::Linear linear;
  linear.own = &elu;
  for (const int64_t heads : {1, 3})
    for (const bool is_causal : {false, true}) {
      const LinearInputs in(heads);
      Context alone;
      alone.threads = 1;
      const OwnResults expected = results_of(in, linear, is_causal, alone);
      Threads executor(3);
      Context context;
      context.executor = &executor;
      const OwnResults got = results_of(in, linear, is_causal, context);
      EXPECT_TRUE(same_results(got.forward, expected.forward));
      EXPECT_TRUE(same_bits(got.gradients.d_query, expected.gradients.d_query));
      EXPECT_TRUE(same_bits(got.gradients.d_key, expected.gradients.d_key));
      EXPECT_TRUE(same_bits(got.gradients.d_value, expected.gradients.d_value));
    }
}

}  // namespace
}  // namespace laws

// Custom normalisers from a function of a score, with and without the sum of its row: masked pairs,
// rows without keys, and what is rejected.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "custom/custom_calls.h"
#include "gradients/gradient_problems.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/normalizer/custom_shares.h"
#include "rapt/normalizer/custom_weights.h"
#include "rapt/tangents.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::CustomShares;
using rapt::CustomWeights;
using rapt::ErrorCode;
using rapt::QueryPlace;

// Sigmoid, without the bias that keeps it small.
auto own_sigmoid() {
  return CustomWeights(
      "own_sigmoid",
      [](auto s, const QueryPlace& at) {
        // Must not be called for a row that does not exist, which would be NaN.
        if (at.query < 0 || at.query >= at.head.q_len) return decltype(s)(NAN);
        return 1 / (1 + std::exp(-s));
      },
      [](auto s, const QueryPlace&) {  // p (1 - p), all digits of it
        const auto e = std::exp(-std::abs(s));
        return e / ((1 + e) * (1 + e));
      });
}

// Softmax, as far as e^s does not overflow.
auto own_softmax() {
  return CustomShares(
      "own_softmax", [](auto s, const QueryPlace&) { return std::exp(s); },
      [](auto s, const QueryPlace&) { return std::exp(s); });
}

auto squares() {
  return CustomShares(
      "squares", [](auto s, const QueryPlace&) { return s * s; },
      [](auto s, const QueryPlace&) { return 2 * s; });
}

// A problem whose normaliser is replaced by a custom one; for softmax with small scores, so that
// e^s does not overflow.
Descriptor with_normalizer(Descriptor d, const char* normalizer) {
  d.normalizer = parse_descriptor(std::string("q1k1d1:norm=") + normalizer).normalizer;
  if (has_statistic(d.normalizer))
    d.scores.clear(), d.scale = {}, d.magnitude = std::min(d.magnitude, 1.0);
  else
    d.captures.entropy = d.backward.d_lse = false;
  return d;
}

// Draws problems of the grid whose normaliser is replaced by a custom one.
template <class Own>
void expect_reference(const char* normalizer, const Own& own, int count) {
  LawGrid grid(base_seed() + 41);
  for (int n = 0; n < problem_count(count) && !testing::Test::HasFailure(); ++n) {
    const Descriptor d = with_normalizer(grid.next(), normalizer);
    Case c(d);
    SCOPED_TRACE("rapt check '" + to_string(d) + "'");
    c.options.normalizer = own;
    const Comparison comparison = compare(c, run(c));
    EXPECT_TRUE(comparison.ok()) << comparison.failures();
  }
}

template <class Own>
void expect_reference_of_gradients(const char* normalizer, const Own& own, int count) {
  Random random(base_seed() + 42);
  for (int n = 0; n < problem_count(count) && !testing::Test::HasFailure(); ++n) {
    const Descriptor d = with_normalizer(gradient_problem(random_cell(random), random), normalizer);
    Case c(d);
    SCOPED_TRACE("rapt check '" + to_string(d) + "'");
    c.options.normalizer = own;
    const GradientCase g(c);
    const Comparison comparison = compare(g, run_backward(g));
    EXPECT_TRUE(comparison.ok()) << comparison.failures();
  }
}

TEST(CustomWeights, AgreeWithTheReferenceOfTheSameFormula) {
  const auto own = own_sigmoid();
  expect_reference("sigmoid(0)", own, 800);
  expect_reference_of_gradients("sigmoid(0)", own, 300);
}

TEST(CustomShares, AgreeWithTheReferenceOfTheSameFormula) {
  const auto own = own_softmax();
  expect_reference("softmax", own, 800);
  expect_reference_of_gradients("softmax", own, 300);
}

TEST(CustomShares, SharesOfSquares) {
  Random random(base_seed());
  const Inputs in(random, 2, 30, 200);
  const auto own = squares();
  const rapt::Causal causal(rapt::Anchor::bottom_right);
  for (const bool masked : {false, true}) {
    AttentionOptions options, scores;
    options.normalizer = scores.normalizer = own;
    if (masked) options.masks = scores.masks = {&causal};
    options.weights.emplace();
    options.entropy = true;
    scores.weights.emplace();
    scores.weights->stage = rapt::WeightsStage::scores;
    const AttentionResult got = in.attend(options);
    const std::vector<double> s = values_of(in.attend(scores).weights), w = values_of(got.weights),
                              statistic = values_of(got.statistic),
                              entropy = values_of(got.entropy);
    for (size_t row = 0; row < 60; ++row) {
      std::vector<double> u;
      for (size_t j = 0; j < 200; ++j) {
        const double x = s[row * 200 + j];
        u.push_back(x > -INFINITY ? x * x : 0);
      }
      double sum = 0, nats = 0;
      for (const double x : u) sum += x;
      for (size_t j = 0; j < 200; ++j) {
        const double p = u[j] / sum;
        EXPECT_NEAR(w[row * 200 + j], p, 1e-13 * p);  // sums of 200 numbers above 0
        if (p > 0) nats -= p * std::log(p);
      }
      EXPECT_NEAR(statistic[row], std::log(sum), 1e-13 * (1 + std::abs(std::log(sum))));
      EXPECT_NEAR(entropy[row], nats, 1e-12);
    }
  }
}

// A function that does not map -inf to 0.
TEST(CustomNormalizers, ExcludedPairsAreNotAskedFor) {
  Random random(base_seed());
  std::atomic<bool> asked = false;
  const auto weight = [&](auto s, const QueryPlace&) {
    if (s == -INFINITY) asked = true;
    return s * s;
  };
  const CustomWeights single("single", weight);
  const CustomShares shares("shares", weight);
  const rapt::Causal causal;
  const Inputs in(random, 1, 30, 40);
  for (const rapt::NormalizerRef& normalizer :
       {rapt::NormalizerRef(single), rapt::NormalizerRef(shares)}) {
    AttentionOptions options;
    options.normalizer = normalizer;
    options.masks = {&causal};
    options.weights.emplace();
    options.top_k = 3;
    for (const double x : values_of(in.attend(options).output)) EXPECT_TRUE(std::isfinite(x));
    EXPECT_FALSE(asked);
  }
}

TEST(CustomNormalizers, GradientsAreThoseOfDifferences) {
  Random random(base_seed());
  const auto shares = squares();
  const auto single = own_sigmoid();
  const CustomWeights by_row(
      "by_row",
      [](auto s, const QueryPlace& at) {
        return s * s * s / static_cast<decltype(s)>(at.query + at.head.k_len);
      },
      [](auto s, const QueryPlace& at) {
        return 3 * s * s / static_cast<decltype(s)>(at.query + at.head.k_len);
      });
  const rapt::Causal causal;
  const rapt::Softcap cap(2);
  for (const bool masked : {false, true})
    for (const rapt::NormalizerRef& normalizer :
         {rapt::NormalizerRef(shares), rapt::NormalizerRef(single), rapt::NormalizerRef(by_row)}) {
      AttentionOptions options;
      if (masked) options.masks = {&causal};
      options.scores = {cap};
      options.normalizer = normalizer;
      Inputs in(random, 2, 9, 13);
      expect_differences(in, options);
    }
}

// Results over parts of the keys: merged by ln Z, or added.
TEST(CustomNormalizers, PartsOfTheKeys) {
  Random random(base_seed());
  const Inputs in(random, 1, 9, 300);
  const auto part = [&](int64_t begin, int64_t end, const AttentionOptions& options) {
    return scaled_dot_product_attention(in.query, in.key.view().slice(1, begin, end),
                                        in.value.view().slice(1, begin, end), options);
  };
  const auto shares = squares();
  const auto single = own_sigmoid();
  AttentionOptions options;
  options.normalizer = shares;
  AttentionResult a = part(0, 130, options), b = part(130, 300, options);
  const AttentionResult whole = in.attend(options);
  rapt::merge(a.state(), b.state(), shares);
  const auto expect_near = [](const Tensor& got, const Tensor& expected) {
    const std::vector<double> x = values_of(got), y = values_of(expected);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-12);  // 300 numbers near 1
  };
  expect_near(a.output, whole.output);
  expect_near(a.statistic, whole.statistic);
  options.normalizer = single;
  AttentionResult c = part(0, 130, options), d = part(130, 300, options);
  expect_error(ErrorCode::unsupported, {"merge", "own_sigmoid"},
               [&] { rapt::merge(c.state(), d.state(), single); });
}

// Masked pairs may be NaN; an unmasked NaN propagates. A score of -inf masks its pair.
TEST(CustomNormalizers, NaNs) {
  Random random(base_seed());
  const auto shares = squares();
  const auto single = own_sigmoid();
  const rapt::Causal causal;
  for (const rapt::NormalizerRef& normalizer :
       {rapt::NormalizerRef(shares), rapt::NormalizerRef(single)}) {
    Inputs in(random, 1, 6, 8);
    AttentionOptions options;
    options.normalizer = normalizer;
    options.masks = {&causal};
    const AttentionResult clean = in.attend(options);
    const rapt::Gradients gradients = in.gradients(options);
    for (const int64_t key : {6, 7})  // keys that are masked for every query
      for (int64_t d = 0; d < 3; ++d) {
        set(in.key, Dims{0, key, d}, std::nan(""));
        set(in.value, Dims{0, key, d}, INFINITY);
      }
    EXPECT_TRUE(same_results(in.attend(options), clean));
    EXPECT_TRUE(same_bits(in.gradients(options).d_query, gradients.d_query));
    set(in.key, Dims{0, 4, 0}, std::nan(""));
    const std::vector<double> output = values_of(in.attend(options).output);
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(output[i * 3]), i >= 4) << i;
  }
}

TEST(CustomNormalizers, RowsWithoutKeys) {
  Random random(base_seed());
  const Inputs in(random, 1, 5, 4);
  const auto shares = squares();
  const auto single = own_sigmoid();
  Tensor none(DType::i64, {1});
  set(none, Dims{0}, 0);
  const rapt::Lengths lengths(none);
  for (const rapt::NormalizerRef& normalizer :
       {rapt::NormalizerRef(shares), rapt::NormalizerRef(single)}) {
    AttentionOptions options;
    options.normalizer = normalizer;
    options.masks = {&lengths};
    options.weights.emplace();
    const AttentionResult r = in.attend(options);
    const bool sums = normalizer.statistic == rapt::Statistic::lse;
    for (const double x : values_of(r.output)) EXPECT_EQ(x, 0);
    for (const double x : values_of(r.weights)) EXPECT_EQ(x, 0);
    for (const double x : values_of(r.statistic)) EXPECT_EQ(x, sums ? -INFINITY : 0);
    const rapt::Gradients g = in.gradients(options);
    for (const Tensor* t : {&g.d_query, &g.d_key, &g.d_value})
      for (const double x : values_of(*t)) EXPECT_EQ(x, 0);
  }
}

// A row with keys whose weights are all 0 is 0 / 0. Merged with other keys, and for gradients, it
// contributes nothing.
TEST(CustomShares, NothingToShareShows) {
  const CustomShares positive(
      "positive", [](auto s, const auto&) { return s > 0 ? s : 0 * s; },
      [](auto s, const auto&) { return decltype(s)(s > 0); });
  const Tensor query = filled(DType::f64, {1, 2}, 1), key = filled(DType::f64, {3, 2}, -1);
  AttentionOptions options;
  options.normalizer = positive;
  AttentionResult nothing = scaled_dot_product_attention(query, key, key, options);
  EXPECT_TRUE(std::isnan(values_of(nothing.output)[0]));
  EXPECT_EQ(values_of(nothing.statistic)[0], -INFINITY);
  rapt::BackwardInputs inputs;
  inputs.state = nothing.state();
  inputs.d_output = query;
  const rapt::Gradients g = scaled_dot_product_attention_backward(query, key, key, options, inputs);
  for (const double x : values_of(g.d_query)) EXPECT_EQ(x, 0);
  AttentionResult some = scaled_dot_product_attention(query, query, query, options);
  const AttentionResult whole = scaled_dot_product_attention(query, query, query, options);
  rapt::merge(some.state(), nothing.state(), positive);
  EXPECT_TRUE(same_results(some, whole));
  rapt::merge(nothing.state(), some.state(), positive);
  EXPECT_TRUE(same_results(nothing, whole));
}

TEST(CustomNormalizers, ThreadsChangeNoBit) {
  Random random(base_seed());
  const auto own = squares();
  AttentionOptions options;
  options.normalizer = own;
  options.weights.emplace();
  const Inputs in(random, 3, 400, 300, DType::f32);
  Threads threads(7);
  Context context;
  context.executor = &threads;
  EXPECT_TRUE(
      same_results(scaled_dot_product_attention(in.query, in.key, in.value, options, context),
                   in.attend(options)));
}

TEST(CustomNormalizers, WhatIsMissingIsRefusedByName) {
  Random random(base_seed());
  const Inputs f64(random, 1, 4, 4);
  AttentionOptions options;
  const auto single = own_sigmoid();
  options.normalizer = single;
  options.entropy = true;
  expect_error(ErrorCode::unsupported, {"own_sigmoid", "entropy"}, [&] { f64.attend(options); });
  options.entropy = false;
  AttentionResult forward = f64.attend(options);
  expect_error(ErrorCode::unsupported, {"own_sigmoid", "no tangents"}, [&] {
    rapt::attention_jvp(f64.query, f64.key, f64.value, options, forward.state(), {});
  });
  rapt::BackwardInputs in = f64.backward_inputs(forward, options);
  in.d_statistic = f64.d_statistic;
  expect_error(ErrorCode::unsupported, {"d_statistic", "own_sigmoid"}, [&] {
    scaled_dot_product_attention_backward(f64.query, f64.key, f64.value, options, in);
  });
  rapt::BackwardRequest request;
  request.normalizer_parameters = true;
  expect_error(ErrorCode::unsupported, {"own_sigmoid", "no gradients"},
               [&] { f64.gradients(options, request); });
  const CustomShares forward_only("forward_only", [](auto s, const auto&) { return s * s; });
  options.normalizer = forward_only;
  expect_error(ErrorCode::unsupported, {"forward_only", "no backward pass"},
               [&] { f64.gradients(options); });
}

}  // namespace
}  // namespace laws

// Custom scores, from functions of a pair and as structs: their place among other scores, masked
// and missing pairs, and what is rejected.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "check/compare/comparison.h"
#include "custom/custom_calls.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/score/custom_score.h"
#include "rapt/tangents.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::CustomScore;
using rapt::ErrorCode;

constexpr double kCap = 1.5;

// Softcap as its formula says it.
auto soft_cap() {
  return CustomScore(
      "soft_cap",
      [](auto s, const auto&) {
        return static_cast<decltype(s)>(kCap) * std::tanh(s / static_cast<decltype(s)>(kCap));
      },
      [](auto s, const auto&) {
        const auto y = std::tanh(s / static_cast<decltype(s)>(kCap));
        return 1 - y * y;
      });
}

// ALiBi of the paper, causal, in the same order as its own.
auto distance() {
  return CustomScore(
      "distance",
      [](auto s, const rapt::PairPlace& at) {
        const int64_t last = at.head.rank - 1;
        const double m = last < 0 ? 1
                                  : std::exp2(-8.0 * static_cast<double>(at.head.index[last] + 1) /
                                              static_cast<double>(at.head.leading[last]));
        return static_cast<decltype(s)>(s - m * std::abs(static_cast<double>(at.query - at.key)));
      },
      [](auto s, const auto&) { return decltype(s)(1); });
}

// A number that differs for every pair and head.
auto numbered() {
  return CustomScore("numbered", [](auto, const rapt::PairPlace& at) {
    return static_cast<double>(at.head.index[0] * 10000 + at.query * 100 + at.key);
  });
}

std::vector<double> scores_of(const Inputs& in, AttentionOptions options) {
  options.weights.emplace();
  options.weights->stage = rapt::WeightsStage::scores;
  return values_of(in.attend(options).weights);
}

// Every mask, dtype, bias, capture and packing, because the reference has softcap. The function
// must not be called for a pair that does not exist: its arrays per query and key end there.
TEST(CustomScore, AgreesWithTheReferenceOfTheSameFormula) {
  Wanted wanted;
  int64_t drawn = 0;
  std::atomic<bool> outside = false;
  const CustomScore own("own", [&](auto s, const rapt::PairPlace& at) {
    if (at.query < 0 || at.query >= at.head.q_len || at.key < 0 || at.key >= at.head.k_len)
      outside = true;
    for (int i = 0; i < at.head.rank; ++i)
      if (at.head.index[i] < 0 || at.head.index[i] >= at.head.leading[i]) outside = true;
    return decltype(s)(kCap) * std::tanh(s / decltype(s)(kCap));
  });
  for_problems(400, wanted, [&](const Case& random, Random&) {
    Descriptor d = random.descriptor;
    d.scores = {parse_descriptor("q1k1d1:score=softcap(1.5)").scores[0]};
    Case c(d);
    c.options.scores = {own};
    const Comparison comparison = compare(c, run(c));
    EXPECT_TRUE(comparison.ok()) << comparison.failures();
    ++drawn;
  });
  EXPECT_GT(drawn, 0);
  EXPECT_FALSE(outside);
}

TEST(CustomScore, EveryPairHasItsPlace) {
  Random random(base_seed());
  const auto score = numbered();
  AttentionOptions options;
  options.scores = {score};
  const Inputs in(random, 3, 70, 300);
  const std::vector<double> s = scores_of(in, options);
  for (int64_t h = 0; h < 3; ++h)
    for (int64_t i = 0; i < 70; ++i)
      for (int64_t j = 0; j < 300; ++j)
        ASSERT_EQ(s[static_cast<size_t>((h * 70 + i) * 300 + j)],
                  static_cast<double>(h * 10000 + i * 100 + j));
}

// Softcap of a doubled score is not the double of a capped one.
TEST(CustomScore, StandsInItsPlaceAmongOthers) {
  Random random(base_seed());
  Inputs in(random, 2, 20, 40);
  const CustomScore twice(
      "twice", [](auto s, const auto&) { return 2 * s; },
      [](auto s, const auto&) { return decltype(s)(2); });
  const rapt::Softcap cap(kCap);
  AttentionOptions options;
  const std::vector<double> plain = scores_of(in, options);
  options.scores = {twice, cap};
  const std::vector<double> twice_first = scores_of(in, options);
  options.scores = {cap, twice};
  const std::vector<double> cap_first = scores_of(in, options);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(twice_first[i], kCap * std::tanh(2 * plain[i] / kCap), 1e-14);
    EXPECT_NEAR(cap_first[i], 2 * kCap * std::tanh(plain[i] / kCap), 1e-14);
  }
  expect_differences(in, options);
  options.scores = {twice, cap, twice};
  expect_differences(in, options);
}

TEST(CustomScore, GradientsAreThoseOfDifferences) {
  Random random(base_seed());
  const auto capped = soft_cap();
  const auto far = distance();
  const CustomScore squared(
      "squared",
      [](auto s, const auto& at) { return s * s / static_cast<decltype(s)>(1 + at.key); },
      [](auto s, const auto& at) { return 2 * s / static_cast<decltype(s)>(1 + at.key); });
  const rapt::Causal causal;
  for (const bool masked : {false, true}) {
    AttentionOptions options;
    if (masked) options.masks = {&causal};
    options.scores = {capped, far, squared};
    Inputs in(random, 2, 9, 13);
    expect_differences(in, options);
  }
}

// A custom function with the arithmetic of ALiBi in f64, except for one rounding of the product.
TEST(CustomScore, ALiBiAgain) {
  Random random(base_seed());
  const Inputs in(random, 4, 33, 70);
  const auto own = distance();
  const rapt::Alibi alibi;
  AttentionOptions a, b;
  a.scores = {own}, b.scores = {alibi};
  const std::vector<double> x = scores_of(in, a), y = scores_of(in, b);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 0x1p-52 * (70 + std::abs(y[i])));
}

// A function may return an element of the caller's array.
TEST(CustomScore, FunctionsMayReturnReferences) {
  Random random(base_seed());
  const Inputs in(random, 2, 5, 7);
  const Tensor table = random_normal(random, DType::f64, {5, 7});
  const std::span<const double> numbers = table.values<double>();
  const CustomScore given("given", [&](auto, const rapt::PairPlace& at) -> const double& {
    return numbers[static_cast<size_t>(at.query * 7 + at.key)];
  });
  AttentionOptions options;
  options.scores = {given};
  const std::vector<double> s = scores_of(in, options);
  for (size_t x = 0; x < s.size(); ++x) EXPECT_EQ(s[x], numbers[x % 35]);
}

// The same bits for any executor, and with all threads in one object.
TEST(CustomScore, ThreadsChangeNoBit) {
  Random random(base_seed());
  const auto score = soft_cap();
  AttentionOptions options;
  options.scores = {score};
  options.weights.emplace();
  const Inputs in(random, 3, 400, 300, DType::f32);
  const AttentionResult expected = in.attend(options);
  const rapt::Gradients gradients = in.gradients(options);
  Threads threads(7);
  Context context;
  context.executor = &threads;
  AttentionResult got = scaled_dot_product_attention(in.query, in.key, in.value, options, context);
  EXPECT_TRUE(same_results(got, expected));
  const rapt::Gradients again = scaled_dot_product_attention_backward(
      in.query, in.key, in.value, options, in.backward_inputs(got, options), {}, context);
  EXPECT_TRUE(same_bits(again.d_query, gradients.d_query));
  EXPECT_TRUE(same_bits(again.d_key, gradients.d_key));
  EXPECT_TRUE(same_bits(again.d_value, gradients.d_value));
}

// Masked pairs may be NaN before and after the score; an unmasked NaN propagates.
TEST(CustomScore, NaNs) {
  Random random(base_seed());
  Inputs in(random, 1, 6, 8);
  const rapt::Causal causal;
  const CustomScore root(
      "root",
      [](auto s, const rapt::PairPlace& at) {
        return at.key > at.query ? std::sqrt(-1 - s * s) : s;
      },
      [](auto s, const rapt::PairPlace& at) {
        return at.key > at.query ? std::sqrt(-1 - s * s) : decltype(s)(1);
      });
  const CustomScore same(
      "same", [](auto s, const auto&) { return s; },
      [](auto s, const auto&) { return decltype(s)(1); });
  AttentionOptions options, plain;
  options.masks = plain.masks = {&causal};
  options.scores = {root}, plain.scores = {same};
  EXPECT_TRUE(same_bits(in.gradients(options).d_query, in.gradients(plain).d_query));
  for (const double x : values_of(in.attend(options).output)) EXPECT_TRUE(std::isfinite(x));
  const CustomScore spoilt("spoilt", [](auto s, const rapt::PairPlace& at) {
    return at.key == 2 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(s);
  });
  options.scores = {spoilt};
  const std::vector<double> output = values_of(in.attend(options).output);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(output[i * 3]), i >= 2) << i;
}

// A score of -inf has weight 0 but does not mask its pair: a NaN there propagates, and a row of
// such scores is not a row without keys.
TEST(CustomScore, MinusInfinityIsNoMask) {
  Random random(base_seed());
  Inputs in(random, 1, 6, 8);
  const CustomScore below(
      "below",
      [](auto s, const rapt::PairPlace& at) {
        return at.key == 2 || at.query == 5 ? decltype(s)(-INFINITY) : s;
      },
      [](auto s, const auto&) { return decltype(s)(1); });
  AttentionOptions options;
  options.scores = {below};
  options.weights.emplace();
  AttentionResult r = in.attend(options);
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 8; ++j)
      if (i == 5)
        EXPECT_TRUE(std::isnan(get(r.weights, Dims{0, i, j})));
      else
        EXPECT_EQ(get(r.weights, Dims{0, i, j}) == 0, j == 2);
  EXPECT_TRUE(std::isfinite(get(r.output, Dims{0, 0, 0})));
  EXPECT_TRUE(std::isnan(get(r.output, Dims{0, 5, 0})));
  EXPECT_TRUE(std::isnan(get(in.gradients(options).d_query, Dims{0, 5, 0})));
  set(in.value, Dims{0, 2, 0}, NAN);
  EXPECT_TRUE(std::isnan(get(in.attend(options).output, Dims{0, 0, 0})));
}

// A row without keys stays one, whatever its scores are.
TEST(CustomScore, RowsWithoutKeys) {
  Random random(base_seed());
  const Inputs in(random, 1, 5, 4);
  const CustomScore large(
      "large", [](auto s, const auto&) { return s + 1e30; },
      [](auto s, const auto&) { return decltype(s)(1); });
  Tensor none(DType::i64, {1});
  set(none, Dims{0}, 0);
  const rapt::Lengths lengths(none);
  AttentionOptions options;
  options.scores = {large};
  options.masks = {&lengths};
  const AttentionResult r = in.attend(options);
  for (const double x : values_of(r.output)) EXPECT_EQ(x, 0);
  for (const double x : values_of(r.statistic)) EXPECT_EQ(x, -INFINITY);
  for (const double x : values_of(in.gradients(options).d_query)) EXPECT_EQ(x, 0);
}

// Parameters of a struct: declared, in range, with gradients, one per head.
struct Gate {
  double strength = 1;
  TensorView gates;  // [..., heads]

  static const rapt::Declaration kDeclaration;
  void check() const {
    if (strength == 3) throw rapt::Error(ErrorCode::argument, "gate: 3 is taken");
  }
  // s' = s gate + strength s^2
  template <class E>
  void apply(rapt::Tile<E>& t) const noexcept {
    const E gate = static_cast<E>(number_of_head(gates, *t.head)), c = static_cast<E>(strength);
    for (int64_t x = 0; x < t.keys * t.queries; ++x) t.scores[x] *= gate + c * t.scores[x];
  }
  template <class E>
  void backward(const E* before, const E*, rapt::Tile<E>& t, E* sums) const noexcept {
    const E gate = static_cast<E>(number_of_head(gates, *t.head)), c = static_cast<E>(strength);
    for (int64_t j = 0; j < t.keys; ++j)
      for (int64_t i = 0; i < t.query_positions.count; ++i) {
        const int64_t at = j * t.queries + i;
        const E s = before[at], d = t.scores[at];
        if (d == 0) continue;
        sums[i] += d * s * s;
        sums[t.queries + i] += d * s;
        t.scores[at] = d * (gate + 2 * c * s);
      }
  }
};
constexpr rapt::Parameter kGateParameters[] = {
    rapt::parameter<Gate, &Gate::strength>("strength", "of the square", {-10, 10}),
    rapt::head_parameter<Gate, &Gate::gates>("gates", "one per head", 0, true)};
const rapt::Declaration Gate::kDeclaration = {"gate", "a gate per head", "this test",
                                              kGateParameters};

TEST(CustomScore, ParametersHaveRangesAndGradients) {
  Random random(base_seed());
  Inputs in(random, 3, 20, 30);
  Tensor gates = random_normal(random, DType::f64, {3});
  Gate gate;
  gate.strength = 0.25;
  gate.gates = gates;
  const auto softer = soft_cap();
  AttentionOptions options;
  options.scores = {softer, gate};
  expect_differences(in, options);
  rapt::BackwardRequest request;
  request.score_parameters = true;
  const std::vector<double> got = values_of(in.gradients(options, request).d_score_parameters);
  ASSERT_EQ(got.size(), 4u);
  const auto loss = [&] { return in.loss(options); };
  EXPECT_NEAR(got[0], derivative_by(gate.strength, loss), 1e-8 * (1 + std::abs(got[0])));
  for (size_t h = 0; h < 3; ++h)
    EXPECT_NEAR(got[h + 1], derivative_by(gates.values<double>()[h], loss),
                1e-8 * (1 + std::abs(got[h + 1])));

  gate.strength = 11;
  expect_error(ErrorCode::argument, {"gate", "strength = 11", "out of range"},
               [&] { in.attend(options); });
  gate.strength = 3;
  expect_error(ErrorCode::argument, {"3 is taken"}, [&] { in.attend(options); });
  gate.strength = 1;
  gate.gates = {};
  expect_error(ErrorCode::argument, {"gate", "gates is missing"}, [&] { in.attend(options); });
}

// Hooks for floats alone.
struct ScoresFloatsOnly {
  static const rapt::Declaration kDeclaration;
  void apply(rapt::Tile<float>&) const noexcept {}
};
const rapt::Declaration ScoresFloatsOnly::kDeclaration = {"floats_only", "", "", {}};

TEST(CustomScore, WhatIsMissingIsRefusedByName) {
  Random random(base_seed());
  const Inputs f64(random, 1, 4, 4), f32(random, 1, 4, 4, DType::f32);
  AttentionOptions options;
  const ScoresFloatsOnly floats;
  options.scores = {floats};
  EXPECT_NO_THROW(f32.attend(options));
  expect_error(ErrorCode::unsupported, {"score floats_only", "no hooks for double"},
               [&] { f64.attend(options); });
  const CustomScore narrow("narrow", [](float s, const auto&) { return s; });
  options.scores = {narrow};
  EXPECT_NO_THROW(f32.attend(options));
  expect_error(ErrorCode::unsupported, {"score narrow", "no hooks for double"},
               [&] { f64.attend(options); });
  const auto place = numbered();
  options.scores = {place};
  expect_error(ErrorCode::unsupported, {"score numbered", "no backward pass"},
               [&] { f64.gradients(options); });
  const auto capped = soft_cap();
  options.scores = {capped};
  AttentionResult forward = f64.attend(options);
  expect_error(ErrorCode::unsupported, {"score soft_cap", "no tangents"}, [&] {
    rapt::attention_jvp(f64.query, f64.key, f64.value, options, forward.state(), {});
  });
  rapt::BackwardRequest request;
  request.score_parameters = true;
  expect_error(ErrorCode::argument, {"no score with real ones"},
               [&] { f64.gradients(options, request); });
}

}  // namespace
}  // namespace laws

// Sparsemax, entmax15 and alpha-entmax against their definitions, their properties, and the
// parameters that they reject.
#include "normalizer/entmax_oracle.h"
#include "rapt/tangents.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace laws::entmax {
namespace {

using rapt::ErrorCode;

// The threshold of the reference, with which the tests below compare, makes the weights sum to 1.
TEST(Entmax, ThresholdOfTheReference) {
  Random random(base_seed());
  for (const Member& member : kMembers)
    for (const double spread : {0.0, 0.1, 1.0, 4.0})
      for (const size_t count : {1, 7, 300}) {
        std::vector<long double> scores;
        for (size_t j = 0; j < count; ++j) scores.push_back(spread * random.normal());
        check::EntmaxReference reference;
        reference.alpha = member.alpha;
        const long double tau = reference.weigh(std::span<const long double>(scores)).statistic,
                          steep = static_cast<long double>(member.alpha) - 1;
        long double sum = 0;
        for (const long double score : scores)
          sum += std::pow(std::max(0.0L, steep * score - tau), 1 / steep);
        EXPECT_NEAR(static_cast<double>(sum), 1, 1e-14) << member.text << " spread " << spread;
      }
}

TEST(Entmax, IsItsDefinition) {
  Random random(base_seed());
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (const Member& member : kMembers)
      for (const double spread : {0.1, 1.0, 4.0})
        for (const int64_t k_len : {1, 7, 130, 700}) {
          if (RAPT_SANITIZED && k_len == 700) continue;  // the oracle takes its time
          Problem p(random, dtype, 19, k_len, spread, random.chance(0.5) ? 1 : 0.6);
          for (int64_t j = 0; j < k_len; ++j) set(p.allowed, Dims{3, j}, 0);  // without keys
          SCOPED_TRACE(testing::Message() << member.text << " " << name_of(dtype) << " spread "
                                          << spread << " k_len " << k_len);
          const Results got = results_of(p, member.text);
          expect_forward(p, member, got.forward);
          ASSERT_FALSE(testing::Test::HasFailure());
        }
}

// Scores that are nearly equal keep more keys than a short list holds.
TEST(Entmax, LongRows) {
  Random random(base_seed());
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Member& member : kMembers)
      for (const double spread : {0.0, 0.01, 0.1}) {
        if (RAPT_SANITIZED && (spread == 0.01 || dtype == DType::f64)) continue;
        SCOPED_TRACE(testing::Message() << member.text << " spread " << spread);
        Problem p(random, dtype, 37, 1500, 1, 1, 4, 3);
        for (int64_t i = 0; i < p.q_len; ++i)
          for (int64_t d = 0; d < p.head_dim; ++d)
            if (i % 3 == 0) set(p.query, Dims{i, d}, spread * get(p.query, Dims{i, d}));
        const Results got = results_of(p, member.text);
        expect_forward(p, member, got.forward);
        if (spread == 0 && member.alpha >= 1.5) {
          EXPECT_NEAR(get(got.forward.weights, Dims{0, 777}), 1.0 / 1500,
                      tolerance_of(p, member.alpha, unit_of(dtype)) / 1500);
        }
        ASSERT_FALSE(testing::Test::HasFailure());
      }
}

// All scores are equal, and so are the weights: each of them shows the rounding error of their sum,
// which is the sum of partial sums over 128 keys each.
TEST(Entmax, LongSums) {
  const rapt::MadeNormalizer made = rapt::make_normalizer("sparsemax");
  AttentionOptions options;
  options.normalizer = made.ref;
  options.weights.emplace();
  const Tensor one = filled(DType::f32, {1, 1}, 1);
  for (const int64_t k_len : {120000, 125000, 130000}) {
    TensorView key = one;
    key.shape[0] = k_len, key.strides[0] = 0;
    const AttentionResult r = scaled_dot_product_attention(one, key, key, options);
    // Four or more lanes: 32 additions, those of the parts, of the lanes, and the last division.
    const double roundings = 32 + static_cast<double>(k_len) / 128 + 8;
    const double expected = 1 / static_cast<double>(k_len);
    EXPECT_NEAR(get(r.weights, Dims{0, 77}), expected, expected * roundings * 0x1p-24) << k_len;
  }
}

// A row's bits do not depend on its neighbours: alone, in a batch, with more threads.
TEST(Entmax, BitsAreTheRowsOwn) {
  Random random(base_seed());
  for (const char* text : {"sparsemax", "entmax15", "entmax(1.25)"}) {
    Problem p(random, DType::f32, 230, 1300, 1, 1, 8, 9);
    for (int64_t i = 0; i < p.q_len; i += 5)
      for (int64_t d = 0; d < p.head_dim; ++d) set(p.query, Dims{i, d}, 0.01);
    const Results all = results_of(p, text, true, rapt::BackwardPasses::one, 1);
    const Results threads = results_of(p, text, true, rapt::BackwardPasses::one, 2);
    ASSERT_TRUE(same_results(threads.forward, all.forward));
    ASSERT_TRUE(same_bits(threads.gradients.d_query, all.gradients.d_query));
    ASSERT_TRUE(same_bits(threads.gradients.d_key, all.gradients.d_key));
    const rapt::MadeNormalizer made = rapt::make_normalizer(text);
    AttentionOptions options;
    options.normalizer = made.ref;
    options.scale = p.scale;
    for (const int64_t i : {0, 1, 17, 100, 229}) {
      const AttentionResult one =
          scaled_dot_product_attention(p.query.view().slice(0, i, i + 1), p.key, p.value, options);
      for (int64_t d = 0; d < p.value_dim; ++d)
        ASSERT_EQ(get(one.output, Dims{0, d}), get(all.forward.output, Dims{i, d})) << text << i;
    }
  }
}

TEST(Entmax, KnownWeights) {
  const auto weights = [](const char* text, const Row& scores) {
    const auto count = static_cast<int64_t>(scores.size());
    Tensor query = filled(DType::f64, {1, 1}, 1), key(DType::f64, {count, 1});
    for (int64_t j = 0; j < count; ++j) set(key, Dims{j, 0}, scores[static_cast<size_t>(j)]);
    const rapt::MadeNormalizer made = rapt::make_normalizer(text);
    AttentionOptions options;
    options.normalizer = made.ref;
    options.scale = 1.0;
    options.weights.emplace();
    return values_of(scaled_dot_product_attention(query, key, key, options).weights);
  };
  const auto expect = [&](const char* text, const Row& scores, const Row& expected) {
    const Row got = weights(text, scores);
    for (size_t j = 0; j < expected.size(); ++j) {
      EXPECT_NEAR(got[j], expected[j], 1e-10) << text;
      EXPECT_EQ(got[j] == 0, expected[j] == 0) << text;
    }
  };
  // Printed by the entmax package's own page and code.
  expect("sparsemax", {-2, 0, 0.5}, {0, 0.25, 0.75});
  expect("entmax15", {-2, 0, 0.5}, {0, 0.3260073637, 0.6739926363});
  expect("entmax(1.25)", {-2, 0, 0.5}, {0.0053394178, 0.3521097860, 0.6425507962});
  // Squares of two numbers that differ by 1 / 2 and sum to 1.
  expect("entmax(1.5000000000000004)", {0, 1},
         {(4 - std::sqrt(7.0)) / 8, (4 + std::sqrt(7.0)) / 8});
  expect("sparsemax", {0.1, 0.2, 0.3}, {0.7 / 3, 1.0 / 3, 1.3 / 3});
  expect("entmax15", {0.1, 0.2, 0.3}, {0.2765761582, 0.3316666667, 0.3917571751});
  expect("sparsemax", {5, 5, -1}, {0.5, 0.5, 0});
  expect("sparsemax", {1e6, 1e6, 1e6 - 0.5, 0}, {0.5, 0.5, 0, 0});
  expect("entmax15", {-1e9, -1e9}, {0.5, 0.5});
}

TEST(Entmax, WithoutKeysThereIsNothing) {
  const Tensor query = filled(DType::f32, {3, 2}, 1), none(DType::f32, {0, 2});
  for (const Member& member : kMembers) {
    const rapt::MadeNormalizer made = rapt::make_normalizer(member.text);
    AttentionOptions options;
    options.normalizer = made.ref;
    AttentionResult r = scaled_dot_product_attention(query, none, none, options);
    for (const double x : values_of(r.output)) EXPECT_EQ(x, 0);
    for (const double tau : values_of(r.statistic)) EXPECT_EQ(tau, -kInfinity);
    BackwardInputs inputs;
    inputs.state = r.state();
    inputs.d_output = query;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(query, none, none, options, inputs);
    for (const double x : values_of(g.d_query)) EXPECT_EQ(x, 0);
  }
}

// A masked NaN never propagates; an unmasked one of a query or key always does. A value whose
// weight is exactly 0 is not read.
TEST(Entmax, NonFiniteNumbers) {
  Random random(base_seed());
  for (const Member& member : kMembers) {
    SCOPED_TRACE(member.text);
    Problem p(random, DType::f32, 21, 300, 2, 1);
    for (int64_t i = 0; i < p.q_len; ++i) set(p.allowed, Dims{i, 77}, 0);
    const Results clean = results_of(p, member.text);
    for (const double bad : {kInfinity, kNaN}) {
      for (int64_t d = 0; d < p.head_dim; ++d) set(p.key, Dims{77, d}, bad);
      for (int64_t d = 0; d < p.value_dim; ++d) set(p.value, Dims{77, d}, bad);
      const Results masked = results_of(p, member.text);
      ASSERT_TRUE(same_results(masked.forward, clean.forward));
      ASSERT_TRUE(same_bits(masked.gradients.d_query, clean.gradients.d_query));
      ASSERT_TRUE(same_bits(masked.gradients.d_value, clean.gradients.d_value));
      for (int64_t d = 0; d < p.head_dim; ++d)
        ASSERT_EQ(get(masked.gradients.d_key, Dims{77, d}), 0);
    }
    set(p.allowed, Dims{4, 77}, 1);
    const Results shown = results_of(p, member.text);
    for (int64_t i = 0; i < p.q_len; ++i)
      ASSERT_EQ(std::isnan(get(shown.forward.output, Dims{i, 0})), i == 4) << i;
    EXPECT_TRUE(std::isnan(get(shown.gradients.d_query, Dims{4, 0})));
  }
  Problem p(random, DType::f32, 3, 200, 4, 1);
  const Results clean = results_of(p, "sparsemax");
  for (int64_t j = 0; j < p.k_len; ++j)
    if (get(clean.forward.received, Dims{j}) == 0)
      for (int64_t d = 0; d < p.value_dim; ++d) set(p.value, Dims{j, d}, kNaN);
  EXPECT_TRUE(same_results(results_of(p, "sparsemax").forward, clean.forward));
}

// Packed sequences and heads that share keys have the results of separate calls.
TEST(Entmax, SequencesAndHeadsAreCallsOfTheirOwn) {
  Random random(base_seed());
  const rapt::MadeNormalizer made = rapt::make_normalizer("entmax15");
  AttentionOptions options;
  options.normalizer = made.ref;
  const Tensor query = random_normal(random, DType::f32, {4, 90, 8}),
               key = random_normal(random, DType::f32, {2, 90, 8}),
               value = random_normal(random, DType::f32, {2, 90, 8});
  Tensor starts(DType::i64, {4});
  const int64_t begins[] = {0, 20, 20, 90};
  for (int64_t s = 0; s < 4; ++s) starts.values<int64_t>()[static_cast<size_t>(s)] = begins[s];
  options.packed.query_starts = starts;
  const AttentionResult packed = scaled_dot_product_attention(query, key, value, options);
  options.packed = {};
  for (int64_t head = 0; head < 4; ++head)
    for (int64_t s = 0; s < 3; ++s) {
      const auto rows = [&](const Tensor& t, int64_t h) {
        return t.view().slice(0, h, h + 1).slice(1, begins[s], begins[s + 1]);
      };
      const AttentionResult alone = scaled_dot_product_attention(
          rows(query, head), rows(key, head / 2), rows(value, head / 2), options);
      for_each_index(alone.output.dims(), [&](auto i) {
        ASSERT_EQ(get(alone.output, i), get(packed.output, Dims{head, begins[s] + i[1], i[2]}));
      });
    }
}

TEST(Entmax, TopKeysAreTheLargestWeights) {
  Random random(base_seed());
  const Problem p(random, DType::f64, 20, 200, 2, 1);
  const rapt::MadeNormalizer made = rapt::make_normalizer("entmax15");
  AttentionOptions options;
  options.normalizer = made.ref;
  options.scale = p.scale;
  options.top_k = 12;
  options.weights.emplace();
  const AttentionResult r = scaled_dot_product_attention(p.query, p.key, p.value, options);
  for (int64_t i = 0; i < p.q_len; ++i)
    for (int64_t k = 0; k < 12; ++k) {
      const auto key = static_cast<int64_t>(get(r.top_keys, Dims{i, k}));
      EXPECT_EQ(get(r.top_weights, Dims{i, k}), get(r.weights, Dims{i, key}));
    }
}

TEST(Entmax, WhatItHasNotIsRefusedByName) {
  const Tensor t = filled(DType::f32, {2, 2}, 1);
  for (const char* text : {"sparsemax", "entmax15", "entmax"}) {
    const rapt::MadeNormalizer made = rapt::make_normalizer(text);
    AttentionOptions options;
    options.normalizer = made.ref;
    AttentionResult one = scaled_dot_product_attention(t, t, t, options),
                    other = scaled_dot_product_attention(t, t, t, options);
    expect_error(ErrorCode::unsupported, {text},
                 [&] { rapt::merge(one.state(), other.state(), made.ref); });
    options.entropy = true;
    expect_error(ErrorCode::unsupported, {text},
                 [&] { scaled_dot_product_attention(t, t, t, options); });
    options.entropy = false;
    expect_error(ErrorCode::unsupported, {text},
                 [&] { rapt::attention_jvp(t, t, t, options, one.state(), {}); });
  }
}

TEST(Entmax, ByName) {
  EXPECT_STREQ(rapt::make_normalizer("entmax15").ref.declaration->name, "entmax15");
  EXPECT_STREQ(rapt::make_normalizer("sparsemax").ref.declaration->name, "sparsemax");
  expect_error(ErrorCode::argument, {"alpha", "0.5"}, [] { rapt::make_normalizer("entmax(0.5)"); });
  expect_error(ErrorCode::argument, {"alpha", "1"}, [] { rapt::make_normalizer("entmax(1)"); });
  expect_error(ErrorCode::argument, {"alpha", "3"}, [] { rapt::make_normalizer("entmax(3)"); });
  expect_error(ErrorCode::unknown_name, {"did you mean sparsemax?"},
               [] { rapt::make_normalizer("sparse_max"); });
  // What is set by hand is checked by the call.
  rapt::Entmax far(0.9);
  const Tensor t = filled(DType::f32, {2, 2}, 1);
  AttentionOptions options;
  options.normalizer = far;
  expect_error(ErrorCode::argument, {"alpha"},
               [&] { scaled_dot_product_attention(t, t, t, options); });
}

}  // namespace
}  // namespace laws::entmax

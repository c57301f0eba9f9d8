// LSH attention where sizes and numbers are at their limits: segments of unequal sides, long
// chunks, padding that is not finite, very long and very short rows, scores that overflow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "check/tensors/arrays.h"
#include "hostile/guarded.h"
#include "method/lsh/lsh_sizes.h"
#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/method/lsh.h"
#include "support/assertions.h"
#include "support/executors.h"

namespace laws {
namespace {

using check::Random;
using rapt::AttentionOptions;
using rapt::AttentionResult;
using rapt::DType;
using rapt::Lsh;
using rapt::LshCut;
using rapt::LshKeys;
using rapt::Tensor;
using rapt::TensorView;

constexpr float kNanF32 = std::numeric_limits<float>::quiet_NaN();

bool all_finite(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
}

rapt::Gradients gradients_of(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionOptions& options, AttentionResult& result,
                             const Tensor& d_output, bool of_key) {
  rapt::BackwardInputs inputs;
  inputs.state = result.state();
  inputs.d_output = d_output;
  rapt::BackwardRequest request;
  request.key = of_key;
  return scaled_dot_product_attention_backward(query, key, value, options, inputs, request);
}

// At most twice the error of the exact call in f32, where that in f64 is the truth.
void expect_as_exact(const char* name, std::span<const float> got, std::span<const float> exact,
                     std::span<const double> truth) {
  double error = 0;
  for (size_t i = 0; i < exact.size(); ++i) error = std::max(error, std::abs(exact[i] - truth[i]));
  for (size_t i = 0; i < exact.size(); ++i)
    ASSERT_LE(std::abs(got[i] - truth[i]), 2 * error) << name << " " << i;
}

Tensor widened(const Tensor& t) {
  Tensor wide(DType::f64, t.view().dims());
  std::copy_n(t.values<float>().data(), t.count(), wide.values<double>().data());
  return wide;
}

// Of 2,048 queries the first `positive` share a bucket with all keys; the others meet none. So the
// segment has any number of queries, and the backward pass of the engine one part or several.
void expect_gradients_of_one_bucket(int64_t positive) {
  constexpr int64_t kQueries = 2048, kKeys = 4096, kDims = 4;
  Random random(3);
  const auto rows = [&](int64_t count, int64_t from) {
    Tensor t(DType::f32, {count, kDims});
    for (int64_t i = 0; i < t.count(); ++i)
      t.values<float>()[i] = static_cast<float>(random.uniform()) * (i < from * kDims ? 1 : -1);
    return t;
  };
  const Tensor query = rows(kQueries, positive), key = rows(kKeys, kKeys),
               value = rows(kKeys, kKeys), d_output = rows(kQueries, kQueries / 2);
  Lsh lsh(1);
  const std::vector<float> ones(kDims, 1);
  lsh.keys = LshKeys::separate, lsh.buckets = 2;
  lsh.rotations = TensorView(ones.data(), {1, kDims, 1});
  const AttentionOptions options{.method = &lsh};
  AttentionResult result = scaled_dot_product_attention(query, key, value, options);
  const rapt::Gradients got = gradients_of(query, key, value, options, result, d_output, true);

  const auto first = [&](const Tensor& t) {
    Tensor part(DType::f32, {positive, kDims});
    std::copy_n(t.values<float>().data(), part.count(), part.values<float>().data());
    return part;
  };
  const auto exact_gradients = [](const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Tensor& d) {
    AttentionResult of_exact = scaled_dot_product_attention(q, k, v);
    return gradients_of(q, k, v, {}, of_exact, d, true);
  };
  const Tensor q = first(query), d = first(d_output);
  const rapt::Gradients exact = exact_gradients(q, key, value, d),
                        truth =
                            exact_gradients(widened(q), widened(key), widened(value), widened(d));
  expect_as_exact("d_query", got.d_query.values<float>(), exact.d_query.values<float>(),
                  truth.d_query.values<double>());
  expect_as_exact("d_key", got.d_key.values<float>(), exact.d_key.values<float>(),
                  truth.d_key.values<double>());
  expect_as_exact("d_value", got.d_value.values<float>(), exact.d_value.values<float>(),
                  truth.d_value.values<double>());
  for (int64_t i = positive * kDims; i < kQueries * kDims; ++i)
    ASSERT_EQ(got.d_query.values<float>()[i], 0);
}

TEST(LshEdges, SegmentsOfAnyNumberOfQueriesHaveTheirGradients) {
  for (const int64_t positive : {1, 900, 1023, 1148}) {
    SCOPED_TRACE(positive);
    expect_gradients_of_one_bucket(positive);
  }
}

// Rows before `edited` whose bits change if rows from there on are others, with cut=bucket.
int64_t rows_that_change(int64_t chunk, int64_t edited, uint64_t seed) {
  constexpr int64_t kRows = 2600, kDims = 8;
  Random random(seed);
  Tensor rows = check::random_normal(random, DType::f32, {kRows, kDims});
  const Tensor value = check::random_normal(random, DType::f32, {kRows, kDims});
  Lsh lsh(1);
  lsh.chunk = chunk, lsh.buckets = 4, lsh.cut = LshCut::bucket;
  const rapt::Causal causal;
  const AttentionOptions options{.masks = {&causal}, .method = &lsh};
  const Tensor before = scaled_dot_product_attention(rows, rows, value, options).output;
  for (int64_t i = edited * kDims; i < kRows * kDims; ++i)
    rows.values<float>()[i] = static_cast<float>(3 * random.normal());
  const Tensor after = scaled_dot_product_attention(rows, rows, value, options).output;
  int64_t change = 0;
  for (int64_t i = 0; i < edited * kDims; ++i)
    change += before.values<float>()[i] != after.values<float>()[i];
  return change;
}

// Other tokens change the sizes of buckets, and with them where a bucket begins in its chunk.
TEST(LshEdges, CutByBucketIsCausalToTheBitForLongChunks) {
  for (const int64_t chunk : {64, 100, 300, 513, 600})
    for (const uint64_t seed : {1, 2, 3})
      EXPECT_EQ(rows_that_change(chunk, 2200, seed), 0) << chunk << " " << seed;
}

// Chunks of 150 look back to two segments, and those of 600 begin anew with each bucket.
TEST(LshEdges, AnExecutorDoesNotChangeBits) {
  constexpr int64_t kRows = 2500, kDims = 32;
  Random random(2);
  const Tensor rows = check::random_normal(random, DType::f32, {2, kRows, kDims}),
               value = check::random_normal(random, DType::f32, {2, kRows, kDims});
  for (const LshCut cut : {LshCut::row, LshCut::bucket})
    for (const int64_t chunk : {150, 600}) {
      Lsh lsh(2);
      lsh.chunk = chunk, lsh.cut = cut;
      const AttentionOptions options{.method = &lsh};
      Reversed reversed;
      rapt::Context context, alone;
      context.executor = &reversed, alone.threads = 1;
      const auto both = [&](const rapt::Context& c) {
        AttentionResult result = scaled_dot_product_attention(rows, rows, value, options, c);
        rapt::BackwardInputs inputs;
        inputs.state = result.state(), inputs.d_output = value;
        rapt::BackwardRequest request;
        request.key = false;
        rapt::Gradients gradients =
            scaled_dot_product_attention_backward(rows, rows, value, options, inputs, request, c);
        return std::pair(std::move(result), std::move(gradients));
      };
      const auto expected = both(alone), got = both(context);
      EXPECT_TRUE(same_bits(got.first.output, expected.first.output));
      EXPECT_TRUE(same_bits(got.second.d_query, expected.second.d_query));
      EXPECT_TRUE(same_bits(got.second.d_value, expected.second.d_value));
    }
}

TEST(LshEdges, PaddingThatIsNotFiniteDoesNotShow) {
  constexpr int64_t kRows = 48, kLength = 30, kDims = 4;
  Random random(4);
  Tensor rows = check::random_normal(random, DType::f32, {1, kRows, kDims}),
         value = check::random_normal(random, DType::f32, {1, kRows, kDims}),
         d_output = check::random_normal(random, DType::f32, {1, kRows, kDims});
  for (int64_t i = kLength * kDims; i < kRows * kDims; ++i) {
    rows.values<float>()[i] = i % 2 ? kNanF32 : INFINITY;
    value.values<float>()[i] = kNanF32;
  }
  const int64_t length = kLength;
  rapt::Lengths lengths;
  lengths.lengths = TensorView(&length, {1});
  for (const LshCut cut : {LshCut::row, LshCut::bucket}) {
    Lsh lsh(2);
    lsh.chunk = 8, lsh.cut = cut;
    const AttentionOptions options{.masks = {&lengths}, .method = &lsh};
    AttentionResult result = scaled_dot_product_attention(rows, rows, value, options);
    const rapt::Gradients got = gradients_of(rows, rows, value, options, result, d_output, false);
    EXPECT_TRUE(all_finite(result.output.values<float>()));
    EXPECT_TRUE(all_finite(got.d_query.values<float>()));
    EXPECT_TRUE(all_finite(got.d_value.values<float>()));
  }
}

TEST(LshEdges, AMaskedNanDoesNotShowAndAnUnmaskedOneDoes) {
  constexpr int64_t kRows = 64, kDims = 8, kNanRow = 50;
  Random random(9);
  Tensor rows = check::random_normal(random, DType::f32, {kRows, kDims}),
         value = check::random_normal(random, DType::f32, {kRows, kDims}),
         d_output = check::random_normal(random, DType::f32, {kRows, kDims});
  rows.values<float>()[kNanRow * kDims] = kNanF32;
  value.values<float>()[kNanRow * kDims] = kNanF32;
  Lsh lsh;
  lsh.chunk = 8;
  const rapt::Causal causal;
  const AttentionOptions options{.masks = {&causal}, .method = &lsh};
  AttentionResult result = scaled_dot_product_attention(rows, rows, value, options);
  EXPECT_TRUE(all_finite(result.output.values<float>().first(kNanRow * kDims)));
  EXPECT_TRUE(std::isnan(result.output.values<float>()[kNanRow * kDims]));
  const rapt::Gradients got = gradients_of(rows, rows, value, options, result, d_output, false);
  EXPECT_TRUE(std::isnan(got.d_query.values<float>()[kNanRow * kDims]));
}

// Rows times 2^e with a scale times 2^-e have the same scores: the same bits.
TEST(LshEdges, TheLengthOfRowsDoesNotMatter) {
  constexpr int64_t kRows = 40, kDims = 8;
  Random random(5);
  const Tensor rows = check::random_normal(random, DType::f64, {kRows, kDims}),
               value = check::random_normal(random, DType::f64, {kRows, kDims});
  const auto output = [&](int exponent) {
    Tensor scaled(DType::f64, {kRows, kDims});
    for (int64_t i = 0; i < rows.count(); ++i)
      scaled.values<double>()[i] = std::ldexp(rows.values<double>()[i], exponent);
    Lsh lsh(2);
    lsh.chunk = 8;
    return scaled_dot_product_attention(scaled, scaled, value,
                                        {.scale = std::ldexp(0.5, -exponent), .method = &lsh})
        .output;
  };
  const Tensor expected = output(0);
  for (const int exponent : {-600, -300, 300, 600})
    EXPECT_TRUE(same_bits(output(exponent), expected)) << exponent;
}

// 1 / |row| exceeds f32: the row counts as one of zeros.
TEST(LshEdges, ShortRowsDoNotSpoilOthers) {
  constexpr int64_t kRows = 40, kDims = 8;
  Random random(6);
  Tensor rows = check::random_normal(random, DType::f32, {kRows, kDims});
  const Tensor value = check::random_normal(random, DType::f32, {kRows, kDims});
  for (int64_t d = 0; d < kDims; ++d) rows.values<float>()[7 * kDims + d] = 1e-42f;
  Lsh lsh(2);
  lsh.chunk = 8;
  const AttentionOptions options{.method = &lsh};
  AttentionResult result = scaled_dot_product_attention(rows, rows, value, options);
  EXPECT_TRUE(all_finite(result.output.values<float>()));
  const rapt::Gradients gradients = gradients_of(rows, rows, value, options, result, value, false);
  EXPECT_TRUE(all_finite(gradients.d_query.values<float>()));
}

TEST(LshEdges, AQueryThatIsNotFiniteShowsWithoutAnotherKey) {
  Random random(8);
  Tensor rows = check::random_normal(random, DType::f32, {4, 4});
  const Tensor value = check::random_normal(random, DType::f32, {4, 4});
  const rapt::Causal causal;
  Lsh lsh(2);
  const AttentionOptions options{.masks = {&causal}, .method = &lsh};
  for (const float number : {kNanF32, INFINITY}) {
    rows.values<float>()[0] = number;
    AttentionResult result = scaled_dot_product_attention(rows, rows, value, options);
    EXPECT_TRUE(std::isnan(result.statistic.values<float>()[0]));
    const rapt::Gradients got = gradients_of(rows, rows, value, options, result, value, false);
    for (int64_t d = 0; d < 4; ++d) {
      EXPECT_TRUE(std::isnan(result.output.values<float>()[d]));
      EXPECT_TRUE(std::isnan(got.d_value.values<float>()[d]));
      EXPECT_TRUE(std::isnan(got.d_query.values<float>()[d]));
    }
  }
}

// One chunk looks at every pair but the token itself: the exact call on keys of length 1.
TEST(LshEdges, AQueryWhoseScoresOverflowHasTheResultOfTheExactCall) {
  Tensor rows(DType::f32, {2, 1}), key(DType::f32, {1, 1}), query(DType::f32, {1, 1}),
      value(DType::f32, {2, 1}), first(DType::f32, {1, 1});
  rows.values<float>()[0] = 2, rows.values<float>()[1] = -1e30f;
  query.values<float>()[0] = -1e30f, key.values<float>()[0] = 1;
  value.values<float>()[0] = first.values<float>()[0] = 3, value.values<float>()[1] = 5;
  const rapt::Causal causal;
  Lsh lsh(2);
  const AttentionResult exact = scaled_dot_product_attention(query, key, first, {.scale = 1e20}),
                        got = scaled_dot_product_attention(
                            rows, rows, value, {.scale = 1e20, .masks = {&causal}, .method = &lsh});
  const float expected = exact.output.values<float>()[0], output = got.output.values<float>()[1];
  EXPECT_TRUE(output == expected || (std::isnan(output) && std::isnan(expected)))
      << output << " " << expected;
  const float lse = got.statistic.values<float>()[1], of_exact = exact.statistic.values<float>()[0];
  EXPECT_TRUE(lse == of_exact || (std::isnan(lse) && std::isnan(of_exact)))
      << lse << " " << of_exact;
}

Tensor matrix(int64_t rows, const std::vector<float>& numbers) {
  Tensor t(DType::f32, {rows, static_cast<int64_t>(numbers.size()) / rows});
  std::ranges::copy(numbers, t.values<float>().begin());
  return t;
}

// A query that meets key 0 alone in one round, keys 1 and 2 alone in the other one: all keys of the
// exact call. The score of key 0 overflows to -inf. `first`: the round in which it meets key 0.
struct LowScore {
  Tensor query = matrix(1, {1, 1}), key = matrix(3, {-3.4e38f, 1e30f, 2, -1, 3, -1}),
         value = matrix(3, {7, 8, 1, 2, 3, 4}), d_output = matrix(1, {1, -2});
  std::vector<float> rotations;
  Lsh lsh = Lsh(2);
  AttentionOptions options;

  explicit LowScore(int first)
      : rotations(first == 0 ? std::vector<float>{0, 1, 1, 0} : std::vector<float>{1, 0, 0, 1}) {
    lsh.keys = LshKeys::separate, lsh.buckets = 2;
    lsh.rotations = TensorView(rotations.data(), {2, 2, 1});
    options.scale = 1;
  }
  LowScore(const LowScore&) = delete;
  std::pair<AttentionResult, rapt::Gradients> run(const rapt::Method* method) {
    options.method = method;
    AttentionResult result = scaled_dot_product_attention(query, key, value, options);
    rapt::Gradients gradients = gradients_of(query, key, value, options, result, d_output, true);
    return {std::move(result), std::move(gradients)};
  }
};

void expect_near(const char* name, const Tensor& got, const Tensor& exact) {
  // Weights and outputs up to 4 are rounded once in each of two rounds and once by division.
  for (int64_t i = 0; i < exact.count(); ++i)
    EXPECT_NEAR(got.values<float>()[i], exact.values<float>()[i], 4 * 3 * 0x1p-23)
        << name << " " << i;
}

TEST(LshEdges, ARoundWhoseScoresAreAllMinusInfinityAddsNothing) {
  for (const int first : {0, 1}) {
    LowScore p(first);
    const auto exact = p.run(nullptr), got = p.run(&p.lsh);
    ASSERT_TRUE(all_finite(exact.first.output.values<float>()));
    expect_near("output", got.first.output, exact.first.output);
    expect_near("lse", got.first.statistic, exact.first.statistic);
    expect_near("d_query", got.second.d_query, exact.second.d_query);
    expect_near("d_key", got.second.d_key, exact.second.d_key);
    expect_near("d_value", got.second.d_value, exact.second.d_value);
    // A value of weight 0 shows if it is not finite, as in the exact call.
    p.value.values<float>()[1] = INFINITY;
    const AttentionResult of_infinity = p.run(&p.lsh).first;
    EXPECT_NEAR(of_infinity.output.values<float>()[0], exact.first.output.values<float>()[0], 1e-5);
    EXPECT_TRUE(std::isnan(of_infinity.output.values<float>()[1]));
  }
}

TEST(LshEdges, AQueryWhoseScoresAreAllMinusInfinityIsNan) {
  LowScore p(0);
  for (const int64_t at : {2, 4})
    p.key.values<float>()[at] = 1, p.key.values<float>()[at + 1] = -3.4e38f;
  const auto exact = p.run(nullptr), got = p.run(&p.lsh);
  EXPECT_TRUE(std::isnan(exact.first.output.values<float>()[0]));
  EXPECT_TRUE(std::isnan(got.first.output.values<float>()[0]));
  EXPECT_TRUE(std::isnan(got.first.statistic.values<float>()[0]));
  EXPECT_TRUE(std::isnan(got.second.d_value.values<float>()[0]));
}

// Inputs, results and workspaces of shared keys between inaccessible pages.
void stay_within_memory(const Lsh& lsh, int64_t rows, Edge edge) {
  Random random(11);
  const auto guarded = [&](int64_t dims) {
    return GuardedTensor(check::random_normal(random, DType::f32, {2, rows, dims}), edge);
  };
  const GuardedTensor query = guarded(5), value = guarded(3), d_output = guarded(3);
  const GuardedTensor output(DType::f32, {2, rows, 3}, edge), lse(DType::f32, {2, rows}, edge),
      d_query(DType::f32, {2, rows, 5}, edge), d_value(DType::f32, {2, rows, 3}, edge);
  const AttentionOptions options{.method = &lsh};
  const auto workspace_of = [&](size_t bytes) { return Guarded(bytes, edge); };
  const size_t bytes = rapt::plan(query, query, value, options).workspace_bytes;
  const Guarded workspace = workspace_of(bytes);
  scaled_dot_product_attention(query, query, value, options,
                               {.state = {.output = output, .statistic = lse}},
                               {workspace.data(), bytes});
  AttentionResult expected = scaled_dot_product_attention(query, query, value, options);
  EXPECT_TRUE(same_bits(output, expected.output));
  EXPECT_TRUE(same_bits(lse, expected.statistic));

  rapt::BackwardInputs inputs;
  inputs.state = {.output = output, .statistic = lse}, inputs.d_output = d_output;
  rapt::BackwardRequest request;
  request.key = false;
  const size_t backward_bytes =
      rapt::backward_workspace_bytes(query, query, value, options, request);
  const Guarded backward_workspace = workspace_of(backward_bytes);
  scaled_dot_product_attention_backward(query, query, value, options, inputs, request,
                                        {.d_query = d_query, .d_value = d_value},
                                        {backward_workspace.data(), backward_bytes});
  const rapt::Gradients gradients =
      scaled_dot_product_attention_backward(query, query, value, options, inputs, request);
  EXPECT_TRUE(same_bits(d_query, gradients.d_query));
  EXPECT_TRUE(same_bits(d_value, gradients.d_value));
}

TEST(LshEdges, SharedKeysStayWithinTheirMemory) {
  for (const Edge edge : {Edge::front, Edge::back})
    for (const LshCut cut : {LshCut::row, LshCut::bucket})
      for (const int64_t rows : {1, 37, 300}) {
        Lsh lsh(2);
        lsh.chunk = 9, lsh.cut = cut;
        SCOPED_TRACE(std::to_string(rows) + " cut " + std::to_string(int(cut)));
        stay_within_memory(lsh, rows, edge);
      }
}

TEST(LshEdges, SizesOfLargeCallsFit) {
  Lsh lsh;
  lsh.chunk = int64_t{1} << 28;
  EXPECT_GE(rapt::lsh_sizes(lsh, int64_t{1} << 28, int64_t{1} << 36).segment_chunks, 1);
  lsh.chunk = 1;
  for (const int64_t rows : {int64_t{1} << 29, (int64_t{1} << 30) - 1})
    EXPECT_LE(2 * (rapt::lsh_sizes(lsh, rows, 1).buckets() - 1) + 1,
              std::numeric_limits<int32_t>::max());
}

}  // namespace
}  // namespace laws

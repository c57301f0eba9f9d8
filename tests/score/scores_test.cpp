// Known values of the catalogue's score functions, from papers and other libraries, and the
// parameters that they reject. The tests over the grid check scores and gradients in general.
#include <gtest/gtest.h>

#include <cmath>

#include "rapt/catalogue.h"
#include "rapt/score/alibi.h"
#include "rapt/score/head_scale.h"
#include "rapt/score/log_n.h"
#include "rapt/score/t5_bias.h"
#include "score/scores_alone.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;

// Press et al. 2021, section 3: 1/2, 1/4, ..., 1/256 for 8 heads; their code for 12.
TEST(Alibi, SlopesOfThePaper) {
  for (int64_t h = 0; h < 8; ++h) EXPECT_DOUBLE_EQ(rapt::alibi_slope(h, 8), std::exp2(-(h + 1)));
  const double twelve[] = {0.5,
                           0.25,
                           0.125,
                           0.0625,
                           0.03125,
                           0.015625,
                           0.0078125,
                           0.00390625,
                           0.7071067811865476,
                           0.3535533905932738,
                           0.1767766952966369,
                           0.08838834764831845};
  for (int64_t h = 0; h < 12; ++h) EXPECT_DOUBLE_EQ(rapt::alibi_slope(h, 12), twelve[h]) << h;
}

TEST(Alibi, DistanceAndAnchor) {
  const auto expect = [](const rapt::Alibi& alibi, const auto& distance) {
    const std::vector<double> s = scores_of(4, 3, 5, alibi);
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 5; ++j)
          EXPECT_DOUBLE_EQ(s[static_cast<size_t>((h * 3 + i) * 5 + j)],
                           -rapt::alibi_slope(h, 4) * distance(i, j))
              << h << " " << i << " " << j;
  };
  rapt::Alibi alibi;
  expect(alibi, [](int64_t i, int64_t j) { return std::abs(static_cast<double>(i - j)); });
  alibi.anchor = rapt::Anchor::bottom_right;  // flash-attention
  expect(alibi, [](int64_t i, int64_t j) { return std::abs(static_cast<double>(i + 2 - j)); });
  alibi.distance = rapt::AlibiDistance::signed_;
  expect(alibi, [](int64_t i, int64_t j) { return static_cast<double>(i + 2 - j); });
}

// T5's buckets of distances j - i from -140 to 140 (32 buckets, 128): as Hugging Face's
// _relative_position_bucket has them at the distances where a bucket begins.
TEST(T5Bias, Buckets) {
  Tensor table(DType::f64, {32});
  for (int64_t b = 0; b < 32; ++b) set(table, Dims{b}, static_cast<double>(b));
  rapt::T5Bias both(table);
  const std::pair<int64_t, int64_t> of_both[] = {
      {0, 0},    {-1, 1},    {-7, 7},    {-8, 8},   {-11, 8},  {-12, 9},  {-15, 9},  {-16, 10},
      {-22, 10}, {-23, 11},  {-31, 11},  {-32, 12}, {-45, 12}, {-46, 13}, {-64, 14}, {-90, 14},
      {-91, 15}, {-128, 15}, {-140, 15}, {1, 17},   {8, 24},   {16, 26},  {64, 30},  {128, 31}};
  for (const auto& [ahead, bucket] : of_both) EXPECT_EQ(both.bucket(ahead), bucket) << ahead;
  both.direction = rapt::T5Direction::past;
  const std::pair<int64_t, int64_t> of_past[] = {{5, 0},    {0, 0},    {-15, 15},  {-16, 16},
                                                 {-32, 21}, {-64, 26}, {-127, 31}, {-500, 31}};
  for (const auto& [ahead, bucket] : of_past) EXPECT_EQ(both.bucket(ahead), bucket) << ahead;
}

// A long row, and queries far from their keys: the table of a tile, and the one number of others.
TEST(T5Bias, EveryPairHasItsBucket) {
  Random random(base_seed());
  const Tensor table = random_normal(random, DType::f64, {2, 32});
  for (const auto direction : {rapt::T5Direction::both, rapt::T5Direction::past})
    for (const auto anchor : {rapt::Anchor::top_left, rapt::Anchor::bottom_right}) {
      rapt::T5Bias bias(table);
      bias.direction = direction, bias.anchor = anchor;
      const int64_t q_len = 90, k_len = 700, o = anchor == rapt::Anchor::top_left ? 0 : 610;
      const std::vector<double> s = scores_of(2, q_len, k_len, bias);
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t i = 0; i < q_len; ++i)
          for (int64_t j = 0; j < k_len; ++j)
            ASSERT_EQ(s[static_cast<size_t>((h * q_len + i) * k_len + j)],
                      get(table, Dims{h, bias.bucket(j - i - o)}))
                << h << " " << i << " " << j;
    }
}

// The factor is ln n; relative to a length of training it is 1 there.
TEST(LogN, Factors) {
  const Tensor query = filled(DType::f64, {3, 1}, 1), key = filled(DType::f64, {5, 1}, 1);
  const auto lse_of = [&](const rapt::LogN& log_n) {
    AttentionOptions options;
    options.scores = {log_n};
    return values_of(scaled_dot_product_attention(query, key, key, options).statistic);
  };
  rapt::LogN log_n;
  EXPECT_NEAR(lse_of(log_n)[0], 2 * std::log(5.0), 1e-15);
  log_n.length = 5;
  EXPECT_NEAR(lse_of(log_n)[0], 1 + std::log(5.0), 1e-15);
  log_n.count = rapt::LogCount::position, log_n.length = 0;
  for (size_t i = 0; i < 3; ++i)  // the last of 3 queries is at the position of the last of 5 keys
    EXPECT_NEAR(lse_of(log_n)[i], std::log(static_cast<double>(i) + 3) + std::log(5.0), 1e-15);
}

TEST(Scores, BadInput) {
  const Tensor t = filled(DType::f32, {2, 3, 4, 4}, 1);
  const auto refused = [&](const rapt::ScoreRef& score, ErrorCode code, const char* what) {
    AttentionOptions options;
    options.scores = {score};
    expect_error(code, {score.declaration->name, what},
                 [&] { scaled_dot_product_attention(t, t, t, options); });
  };
  const Tensor two = filled(DType::f32, {2}, 1), integers = filled(DType::i64, {3}, 1),
               three = filled(DType::f32, {3, 3}, 1), odd = filled(DType::f32, {3, 7}, 1),
               eight = filled(DType::f32, {3, 8}, 1);
  const rapt::HeadScale missing, wrong(two), whole(integers);
  refused(missing, ErrorCode::argument, "scales is missing");
  refused(wrong, ErrorCode::shape, "does not broadcast to the leading dimensions [2, 3]");
  refused(whole, ErrorCode::dtype, "expected f32 or f64");
  rapt::TensorView no_data = eight;
  no_data.data = nullptr;
  const rapt::T5Bias too_few(three), uneven(odd), nowhere(no_data);
  AttentionOptions options;
  options.scores = {nowhere};
  expect_error(ErrorCode::argument, {"table [3, 8]", "null data pointer"},
               [&] { scaled_dot_product_attention(t, t, t, options); });
  refused(too_few, ErrorCode::shape, "even number of at least 4");
  refused(uneven, ErrorCode::shape, "7 buckets");
  rapt::T5Bias near(eight);
  near.max_distance = 2;
  refused(near, ErrorCode::argument, "max_distance is 2");
  const Tensor slopes = filled(DType::f32, {3}, 1);
  rapt::Alibi both(slopes);
  both.heads = 3;
  refused(both, ErrorCode::argument, "slopes and a number of heads");
  rapt::Alibi too_few_heads;  // of three
  too_few_heads.heads = 2;
  refused(too_few_heads, ErrorCode::argument, "slopes for 2 heads, of which there are 3");
  too_few_heads.heads = 4;
  options.scores = {too_few_heads};
  EXPECT_NO_THROW(scaled_dot_product_attention(t, t, t, options));
  rapt::LogN one;
  one.length = 1;
  refused(one, ErrorCode::argument, "length is 1");
  expect_error(ErrorCode::argument, {"t5_bias", "table"}, [] { rapt::make_score("t5_bias"); });
  expect_error(ErrorCode::unknown_name, {"did you mean alibi?"},
               [] { rapt::make_score("alibbi"); });
}

// Outputs must not overlap what a score reads.
TEST(Scores, TensorsAreApartFromOutputs) {
  Tensor t = filled(DType::f32, {3, 4, 4}, 1), lse(DType::f32, {3, 4});
  const rapt::HeadScale scale(TensorView(static_cast<float*>(lse.data()), {3}));
  AttentionOptions options;
  options.scores = {scale};
  Tensor output(DType::f32, {3, 4, 4});
  rapt::AttentionOutputs outputs;
  outputs.state.output = output;
  outputs.state.statistic = lse;
  std::vector<std::byte> workspace(rapt::workspace_bytes(t, t, t, options));
  expect_error(ErrorCode::overlap, {"tensor of a score"},
               [&] { scaled_dot_product_attention(t, t, t, options, outputs, workspace); });
}

}  // namespace
}  // namespace laws

// tanh_clip: known scores, agreement with softcap of larger scores, and gradients that vanish where
// scores are clipped.
#include "rapt/score/tanh_clip.h"

#include <gtest/gtest.h>

#include <cmath>

#include "rapt/backward.h"
#include "rapt/score/softcap.h"
#include "support/call.h"
#include "support/differences.h"
#include "support/expect_error.h"

namespace laws {
namespace {

// One query whose scaled products are scale times -2, -1.5, ..., 2.
struct ClippedRow {
  Tensor query = filled(DType::f64, {1, 1}, 1), key{DType::f64, {9, 1}};
  AttentionOptions options;

  ClippedRow(const rapt::ScoreRef& score, double scale) {
    for (int64_t j = 0; j < 9; ++j) set(key, Dims{j, 0}, static_cast<double>(j - 4) / 2);
    options.scores = {score};
    options.scale = scale;
    options.weights.emplace();
    options.weights->stage = rapt::WeightsStage::scores;
  }
  std::vector<double> scores() const {
    return values_of(scaled_dot_product_attention(query, key, key, options).weights);
  }
};

TEST(TanhClip, IsThePapersFormula) {
  const rapt::TanhClip clip(10);
  const std::vector<double> scores = ClippedRow(clip, 3).scores();
  for (size_t j = 0; j < 9; ++j) {
    const double s = 3 * (static_cast<double>(j) - 4) / 2;
    EXPECT_NEAR(scores[j], 10 * std::tanh(s), 1e-14);
    EXPECT_LT(std::abs(scores[j]), 10);
  }
}

// limit tanh(s) = softcap(limit) of limit s.
TEST(TanhClip, IsSoftcapOfLargerScores) {
  const rapt::TanhClip clip(8);
  const rapt::Softcap cap(8);
  const std::vector<double> clipped = ClippedRow(clip, 0.5).scores(),
                            capped = ClippedRow(cap, 4).scores();
  for (size_t j = 0; j < 9; ++j) EXPECT_NEAR(clipped[j], capped[j], 1e-14);
}

// Scores of 60 and -60 are clipped: only the limit moves them.
TEST(TanhClip, OnlyTheLimitMovesClippedScores) {
  rapt::TanhClip clip(2);
  const Tensor query = filled(DType::f64, {1, 1}, 60);
  Tensor key = filled(DType::f64, {2, 1}, 1), value = filled(DType::f64, {2, 1}, 1);
  set(key, Dims{1, 0}, -1), set(value, Dims{1, 0}, 0);
  AttentionOptions options;
  options.scores = {clip};
  options.scale = 1;
  rapt::AttentionResult forward = scaled_dot_product_attention(query, key, value, options);
  rapt::BackwardInputs inputs;
  const Tensor d_output = filled(DType::f64, {1, 1}, 1);
  inputs.state = forward.state();
  inputs.d_output = d_output;
  rapt::BackwardRequest request;
  request.score_parameters = true;
  const rapt::Gradients gradients =
      scaled_dot_product_attention_backward(query, key, value, options, inputs, request);
  EXPECT_EQ(values_of(gradients.d_query)[0], 0);
  EXPECT_EQ(values_of(gradients.d_key)[0], 0);
  const double by_limit = derivative_by(clip.limit, [&] {
    return values_of(scaled_dot_product_attention(query, key, value, options).output)[0];
  });
  EXPECT_NEAR(values_of(gradients.d_score_parameters)[0], by_limit, 1e-10);
}

TEST(TanhClip, RefusesALimitOfZero) {
  for (const double limit : {0.0, -1.0, std::nan("")}) {
    const rapt::TanhClip clip(limit);
    expect_error(rapt::ErrorCode::argument, {"tanh_clip", "limit"},
                 [&] { ClippedRow(clip, 1).scores(); });
  }
}

}  // namespace
}  // namespace laws

// The mean of values equals its definition and exact attention with a scale of 0, whatever query
// and key contain.
#include "rapt/method/mean.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check/compare/gradient_comparison.h"
#include "check/problem/descriptor.h"
#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "support/call.h"
#include "support/executors.h"

namespace laws {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

rapt::Gradients gradients_of(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionOptions& options, AttentionResult& forward,
                             const Tensor& d_output, const Context& context = {}) {
  rapt::BackwardInputs inputs;
  inputs.state = forward.state();
  inputs.d_output = d_output;
  rapt::BackwardRequest request;
  request.scale = true;
  return scaled_dot_product_attention_backward(query, key, value, options, inputs, request,
                                               context);
}

TEST(Mean, IsTheMeanOfTheValuesThatAQueryAttendsTo) {
  const double values[] = {1, 2, 4, 8};
  const Tensor value = Tensor::copy_of(TensorView(values, {4, 1}));
  const Tensor rows = filled(DType::f64, {4, 3}, kNan);  // query and key have no part in it
  const rapt::Mean mean;
  const rapt::Causal causal;
  const AttentionResult got =
      scaled_dot_product_attention(rows, rows, value, {.masks = {&causal}, .method = &mean});
  const double expected[] = {1, 1.5, 7.0 / 3, 3.75};
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(get(got.output, Dims{i, 0}), expected[i]) << i;
    EXPECT_EQ(get(got.statistic, Dims{i}), std::log(static_cast<double>(i + 1))) << i;
  }
}

TEST(Mean, PassesGradientsToValuesAlone) {
  const double d_outputs[] = {1, 2, 3, 4};
  const Tensor d_output = Tensor::copy_of(TensorView(d_outputs, {4, 1}));
  const Tensor rows = filled(DType::f64, {4, 3}, kNan), value = filled(DType::f64, {4, 1}, 1);
  const rapt::Mean mean;
  const rapt::Causal causal;
  const AttentionOptions options{.masks = {&causal}, .method = &mean};
  AttentionResult forward = scaled_dot_product_attention(rows, rows, value, options);
  const rapt::Gradients g = gradients_of(rows, rows, value, options, forward, d_output);
  // Key j gets d_output(i) / (i + 1) of the queries i >= j, each of which is 1.
  for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(get(g.d_value, Dims{j, 0}), 4 - j) << j;
  for_each_index(rows.dims(), [&](auto at) {
    EXPECT_EQ(get(g.d_query, at), 0);
    EXPECT_EQ(get(g.d_key, at), 0);
  });
  EXPECT_EQ(get(g.d_scale, Dims{}), 0);
}

TEST(Mean, MaskedValuesNeverShow) {
  Tensor value = filled(DType::f32, {2, 5, 2}, 1);
  const int64_t counts[] = {3, 0};
  for (int64_t j = 3; j < 5; ++j) set(value, Dims{0, j, 1}, kNan);
  set(value, Dims{1, 0, 0}, kNan);
  const Tensor rows = filled(DType::f32, {2, 5, 2}, 1);
  const rapt::Lengths lengths(TensorView(counts, {2}));
  const rapt::Mean mean;
  const AttentionOptions options{.masks = {&lengths}, .method = &mean};
  AttentionResult got = scaled_dot_product_attention(rows, rows, value, options);
  const rapt::Gradients g = gradients_of(rows, rows, value, options, got, value);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t d = 0; d < 2; ++d) {
      EXPECT_EQ(get(got.output, Dims{0, i, d}), 1);
      EXPECT_EQ(get(got.output, Dims{1, i, d}), 0);  // no key
      EXPECT_EQ(get(g.d_value, Dims{1, i, d}), 0);
    }
  EXPECT_EQ(get(got.statistic, Dims{1, 0}), -std::numeric_limits<double>::infinity());
  for (int64_t j = 3; j < 5; ++j) EXPECT_EQ(get(g.d_value, Dims{0, j, 0}), 0);
}

TEST(Mean, UnmaskedNanShows) {
  Tensor value = filled(DType::f32, {4, 1}, 1);
  set(value, Dims{2, 0}, kNan);
  const rapt::Mean mean;
  const rapt::Causal causal;
  const AttentionResult got =
      scaled_dot_product_attention(value, value, value, {.masks = {&causal}, .method = &mean});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(std::isnan(get(got.output, Dims{i, 0})), i >= 2) << i;
}

// Outputs and gradients of every dtype and kind of head, with the masks that it accepts.
TEST(Mean, AgreesWithTheReference) {
  for (const char* line :
       {"h2q5k5d3:method=mean", "q0k4d2:method=mean", "q3k0d2:method=mean", "q3k4d2v0:method=mean",
        "b2h4/2q7k9d4v3:bf16:mask=causal(bottom-right,-2)&lengths:method=mean:backward=lse,f32",
        "b2h4/2q9k7d4v3:f16:mask=causal(1):method=mean", "b2h3q4k6d5:f64:mask=lengths:method=mean",
        "b3h2q4k6d5:bf16>f32:key=[1,2]:value=[2]:mask=causal:method=mean",
        "b2h3q4k6d5:query=[1,1]:value=[2,1]:layout=strided:mask=causal(bottom-right):method="
        "mean"}) {
    SCOPED_TRACE(line);
    const Case c(check::parse_descriptor(line));
    const check::Comparison forward = check::compare(c, check::run(c));
    EXPECT_TRUE(forward.ok()) << forward.failures();
    const check::GradientCase g(c);
    const check::Comparison backward = check::compare(g, check::run_backward(g));
    EXPECT_TRUE(backward.ok()) << backward.failures();
  }
}

TEST(Mean, HasTheSameBitsForAnyExecutor) {
  const Case c(check::parse_descriptor("b3h4/2q300k300d16v40:mask=causal:method=mean"));
  Context alone;
  alone.threads = 1;
  AttentionResult expected = attend(c, alone);
  const rapt::Gradients gradients =
      gradients_of(c.query, c.key, c.value, c.options, expected, expected.output, alone);
  Random random(3);
  for_each_executor(random, [&](const Context& context) {
    AttentionResult got = attend(c, context);
    EXPECT_TRUE(same_results(got, expected));
    const rapt::Gradients g =
        gradients_of(c.query, c.key, c.value, c.options, got, got.output, context);
    EXPECT_TRUE(same_bits(g.d_value, gradients.d_value));
  });
}

}  // namespace
}  // namespace laws

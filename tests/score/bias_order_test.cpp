// The two orders of bias and scores: numbers worked out by hand, their common properties, and that
// -inf masks a pair whatever the score function makes of it. The tests over the grid check scores
// and gradients in general.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rapt/backward.h"
#include "rapt/score/alibi.h"
#include "rapt/score/head_scale.h"
#include "rapt/score/softcap.h"
#include "support/call.h"

namespace laws {
namespace {

using rapt::BiasOrder;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr BiasOrder kOrders[] = {BiasOrder::after_scores, BiasOrder::before_scores};

AttentionOptions with_scores_returned(BiasOrder order) {
  AttentionOptions options;
  options.bias_order = order;
  options.weights.emplace();
  options.weights->stage = rapt::WeightsStage::scores;
  return options;
}

// Scaled products of 1; a bias of 3, and of 0.
TEST(BiasOrder, OfACapByHand) {
  const Tensor query = filled(DType::f64, {1, 1}, 1), key = filled(DType::f64, {2, 1}, 1);
  Tensor bias = filled(DType::f64, {1, 2}, 3);
  set(bias, Dims{0, 1}, 0);
  const rapt::Softcap cap(2);
  for (const BiasOrder order : kOrders) {
    AttentionOptions options = with_scores_returned(order);
    options.scores = {cap};
    options.bias = bias;
    const std::vector<double> s =
        values_of(scaled_dot_product_attention(query, key, key, options).weights);
    const bool first = order == BiasOrder::before_scores;
    EXPECT_NEAR(s[0], first ? 2 * std::tanh(2.0) : 2 * std::tanh(0.5) + 3, 1e-15);
    EXPECT_NEAR(s[1], 2 * std::tanh(0.5), 1e-15);
  }
}

// Without a bias, or without scores, there is nothing to be before or after; and two numbers that
// are added change places without a difference when sums are exact.
TEST(BiasOrder, TheSameBitsWhereItMakesNoDifference) {
  Random random(base_seed());
  const rapt::Softcap cap(1.5);
  const rapt::Alibi alibi;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor query = random_normal(random, dtype, {2, 40, 8}),
                 key = random_normal(random, dtype, {2, 70, 8}),
                 bias = random_normal(random, dtype, {40, 70});
    const Tensor zeros = filled(dtype, {2, 40, 8}, 0), eighths = filled(dtype, {1, 1}, 0.125);
    const auto same = [&](const Tensor& q, const rapt::ScoreList& scores,
                          const rapt::TensorView& added) {
      AttentionOptions options;
      options.scores = scores, options.bias = added;
      const AttentionResult after = scaled_dot_product_attention(q, key, key, options);
      options.bias_order = BiasOrder::before_scores;
      EXPECT_TRUE(same_results(scaled_dot_product_attention(q, key, key, options), after));
    };
    same(query, {cap}, {});
    same(query, {}, bias);
    same(zeros, {alibi}, eighths);  // slopes of 1/16 and 1/256
  }
}

// A pair with bias -inf is masked, whatever the score function makes of -inf and whatever its key
// and value hold. Tested with caps, with the factor 0 (0 times -inf is NaN) and a negative one.
TEST(BiasOrder, MinusInfinityExcludesInBothOrders) {
  const double kNan = std::numeric_limits<double>::quiet_NaN();
  Random random(base_seed());
  const rapt::Softcap cap(2);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const double factor : {1.0, 0.0, -3.0})
      for (const BiasOrder order : kOrders) {
        const int64_t q_len = 37, k_len = 150, hidden = 40;  // masked for every query
        const Tensor scales = filled(DType::f32, {1}, factor);
        const rapt::HeadScale scale(scales);
        const Tensor query = random_normal(random, dtype, {q_len, 8});
        Tensor key = random_normal(random, dtype, {k_len, 8}),
               value = random_normal(random, dtype, {k_len, 8}),
               bias = random_normal(random, dtype, {q_len, k_len});
        for_each_index(bias.dims(), [&](auto i) {
          if (i[1] == hidden || i[0] == 5 || random.chance(0.3)) set(bias, i, -kInfinity);
        });
        const Tensor d_output = random_normal(random, dtype, {q_len, 8});
        AttentionOptions options = with_scores_returned(order);
        options.scores = {cap, scale};
        options.bias = bias;
        struct Outcome {
          AttentionResult forward;
          rapt::Gradients gradients;
        };
        const auto outcome = [&] {
          Outcome o{scaled_dot_product_attention(query, key, value, options), {}};
          rapt::BackwardInputs inputs;
          inputs.state = o.forward.state();
          inputs.d_output = d_output;
          rapt::BackwardRequest request;
          request.bias = request.scale = request.score_parameters = true;
          AttentionOptions plain = options;
          plain.weights = {};
          o.gradients = rapt::scaled_dot_product_attention_backward(query, key, value, plain,
                                                                    inputs, request);
          return o;
        };
        const Outcome with_numbers = outcome();
        for (int64_t d = 0; d < 8; ++d) {
          set(key, Dims{hidden, d}, kNan);
          set(value, Dims{hidden, d}, kInfinity);
        }
        const Outcome with_nan = outcome();
        EXPECT_TRUE(same_results(with_nan.forward, with_numbers.forward));
        const auto& [a, b] =
            std::pair(std::cref(with_nan.gradients), std::cref(with_numbers.gradients));
        for (const auto tensor :
             {&rapt::Gradients::d_query, &rapt::Gradients::d_key, &rapt::Gradients::d_value,
              &rapt::Gradients::d_bias, &rapt::Gradients::d_scale,
              &rapt::Gradients::d_score_parameters}) {
          EXPECT_TRUE(same_bits(a.get().*tensor, b.get().*tensor));
          for (const double x : values_of(a.get().*tensor)) ASSERT_TRUE(std::isfinite(x));
        }
        const std::vector<double> scores = values_of(with_numbers.forward.weights),
                                  lse = values_of(with_numbers.forward.statistic),
                                  d_bias = values_of(b.get().d_bias);
        for (int64_t i = 0; i < q_len; ++i)
          for (int64_t j = 0; j < k_len; ++j) {
            const auto at = static_cast<size_t>(i * k_len + j);
            const bool excluded = get(bias, Dims{i, j}) == -kInfinity;
            ASSERT_EQ(scores[at] == -kInfinity, excluded) << i << " " << j;
            if (excluded) {
              ASSERT_EQ(d_bias[at], 0) << i << " " << j;
            }
          }
        EXPECT_EQ(lse[5], -kInfinity);
      }
}

}  // namespace
}  // namespace laws

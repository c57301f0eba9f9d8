// The weights that are returned: their sums, their product with the values, chosen rows and heads.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check/tolerance/score_errors.h"
#include "check/tolerance/tolerance.h"
#include "rapt/backward.h"
#include "support/call.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace laws {
namespace {

AttentionResult with_weights(const Case& c, const Context& context = {}) {
  AttentionOptions options = c.options;
  options.weights.emplace();
  return scaled_dot_product_attention(c.query, c.key, c.value, options, context);
}

double unit_of(const Case& c) {
  return c.descriptor.dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                                          : std::numeric_limits<float>::epsilon();
}

TEST(Weights, RowsSumToOne) {
  for_problems(60, {}, [](const Case& c, Random&) {
    if (c.descriptor.k_len == 0) return;
    const AttentionResult got = with_weights(c);
    const std::vector<double> lse = values_of(got.statistic);
    const std::vector<double> weights = values_of(got.weights);
    const auto k_len = static_cast<size_t>(c.descriptor.k_len);
    for (size_t row = 0; row < lse.size(); ++row) {
      double sum = 0;
      for (size_t j = 0; j < k_len; ++j) {
        ASSERT_GE(weights[row * k_len + j], 0);
        sum += weights[row * k_len + j];
      }
      const bool empty = lse[row] == -std::numeric_limits<double>::infinity();
      ASSERT_NEAR(sum, empty ? 0 : 1, unit_of(c) * (4 + static_cast<double>(k_len)));
    }
  });
}

TEST(Weights, TimesValueIsOutput) {
  Wanted wanted;
  wanted.leading = false;
  for_problems(60, wanted, [](const Case& c, Random&) {
    const Descriptor& p = c.descriptor;
    const AttentionResult got = with_weights(c);
    const Expectations truth = expectations(c.for_reference());
    std::vector<double> product;
    for (int64_t i = 0; i < p.q_len; ++i)
      for (int64_t d = 0; d < p.value_dim; ++d) {
        double sum = 0;
        for (int64_t j = 0; j < p.k_len; ++j)
          sum += get(got.weights, Dims{i, j}) * get(c.value, Dims{j, d});
        product.push_back(sum);
      }
    EXPECT_TRUE(met_by(truth.output, product, "weights times value", 2));
  });
}

TEST(Weights, WantingThemChangesNothingElse) {
  for_problems(40, {}, [](const Case& c, Random&) {
    EXPECT_TRUE(same_results(with_weights(c), attend(c)));
  });
}

TEST(Weights, ExecutorDoesNotMatter) {
  for_problems(20, {}, [](const Case& c, Random& random) {
    Threads threads(4);
    Shuffled shuffled(random.next(), 3);
    Context in_threads, in_disorder;
    in_threads.executor = &threads;
    in_disorder.executor = &shuffled;
    const AttentionResult alone = with_weights(c);
    EXPECT_TRUE(same_results(with_weights(c, in_threads), alone));
    EXPECT_TRUE(same_results(with_weights(c, in_disorder), alone));
  });
}

// Chosen rows and heads are slices of all weights, bit by bit, in the order asked for.
TEST(Weights, ChosenRowsAndHeads) {
  for_problems(80, {}, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    int64_t heads = 1;
    for (const int64_t length : p.leading) heads *= length;
    const AttentionResult all = with_weights(c);
    const int64_t begin = random.between(0, p.q_len), end = random.between(begin, p.q_len);
    Dims rows, chosen;
    for (int64_t i = begin; i < end; ++i) rows.push_back(i);
    for (int64_t n = random.between(1, 3); n > 0; --n)
      chosen.push_back(random.between(0, heads - 1));
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());

    AttentionOptions options = c.options;
    options.weights.emplace();
    options.weights->row_begin = begin;
    options.weights->row_end = end;
    const AttentionResult some_rows =
        scaled_dot_product_attention(c.query, c.key, c.value, options);
    EXPECT_TRUE(same_bits(some_rows.weights, taken(all.weights, -2, rows)));
    EXPECT_TRUE(same_bits(some_rows.output, all.output));

    options.weights->heads = chosen;
    const AttentionResult some = scaled_dot_product_attention(c.query, c.key, c.value, options);
    const Dims flat{heads, p.q_len, p.k_len};
    const TensorView all_heads(all.weights.view().data, p.dtype, flat, true);
    EXPECT_TRUE(same_bits(some.weights, taken(taken(all_heads, 0, chosen), 1, rows)));
  });
}

// The stage before the normaliser: the formula of the scores, and -inf for exactly the masked
// pairs. The tolerance is that of the score of a weight (tolerance.h), for the plain loop and for
// the kernels, plus two roundings for the conversion to natural units.
TEST(Weights, ScoresAreWhatTheNormaliserGets) {
  Wanted wanted;
  wanted.leading = false;
  for_problems(120, wanted, [](const Case& c, Random&) {
    AttentionOptions options = c.options;
    options.weights.emplace().stage = rapt::WeightsStage::scores;
    const AttentionResult got = scaled_dot_product_attention(c.query, c.key, c.value, options);
    EXPECT_TRUE(same_results(got, attend(c)));
    const check::Problem problem = c.for_reference();
    attention<long double>(problem, {}, {}, [&](const Row<long double>& row) {
      const double row_error = score_error_of(problem, row);
      size_t pair = 0;  // the next of the row
      for (int64_t j = 0; j < c.descriptor.k_len; ++j) {
        const double score = get(got.weights, Dims{row.index, j});
        if (pair == row.pairs.size() || row.pairs[pair].key != j) {
          ASSERT_EQ(score, -std::numeric_limits<double>::infinity()) << row.index << ", " << j;
          continue;
        }
        const auto expected = static_cast<double>(row.pairs[pair++].score);
        const double error = unit_of(c) * (2 * row_error + 2 * std::abs(expected));
        ASSERT_NEAR(score, expected, error + std::numeric_limits<float>::min())
            << row.index << ", " << j;
      }
    });
  });
}

// Chosen rows and heads are slices of all scores, too.
TEST(Weights, ScoresOfChosenRowsAndHeads) {
  for_problems(40, {}, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    int64_t heads = 1;
    for (const int64_t length : p.leading) heads *= length;
    if (heads == 0 || p.q_len == 0) return;
    AttentionOptions options = c.options;
    options.weights.emplace().stage = rapt::WeightsStage::scores;
    const AttentionResult all = scaled_dot_product_attention(c.query, c.key, c.value, options);
    const Dims rows{random.between(0, p.q_len - 1), random.between(0, p.q_len - 1)};
    const Dims chosen{random.between(0, heads - 1)};
    options.weights->rows = rows;
    options.weights->heads = chosen;
    const AttentionResult some = scaled_dot_product_attention(c.query, c.key, c.value, options);
    const TensorView all_heads(all.weights.view().data, all.weights.dtype(),
                               Dims{heads, p.q_len, p.k_len}, true);
    EXPECT_TRUE(same_bits(some.weights, taken(taken(all_heads, 0, chosen), 1, rows)));
  });
}

TEST(Weights, RefusedStages) {
  const Tensor x = filled(DType::f32, {2, 3}, 1);
  AttentionOptions options;
  options.weights.emplace().stage = static_cast<rapt::WeightsStage>(2);
  expect_error(rapt::ErrorCode::argument, {"stage", "weights or scores"},
               [&] { scaled_dot_product_attention(x, x, x, options); });

  options.weights->stage = rapt::WeightsStage::scores;
  AttentionResult result = scaled_dot_product_attention(x, x, x, options);
  rapt::BackwardInputs inputs{.state = result.state(), .d_output = x, .d_weights = result.weights};
  expect_error(rapt::ErrorCode::unsupported, {"d_weights", "scores"},
               [&] { scaled_dot_product_attention_backward(x, x, x, options, inputs); });
}

}  // namespace
}  // namespace laws

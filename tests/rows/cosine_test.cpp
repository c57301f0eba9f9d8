// Cosine attention is attention over rows of length 1; the gradient of a row has no component along
// the row.
#include "rapt/cosine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "support/differences.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace laws {
namespace {

using rapt::BackwardInputs;
using rapt::BackwardPasses;
using rapt::BackwardRequest;
using rapt::Cosine;
using rapt::Rotary;
using rapt::rotary_embedding;
using rapt::rotary_embedding_backward;

constexpr double kScale = 7;

// 1 / max(length, epsilon) of the row that `index` is in.
double inverse_length(const Tensor& rows, std::span<const int64_t> index, double epsilon) {
  std::vector<int64_t> at(index.begin(), index.end());
  double sum = 0;
  for (at.back() = 0; at.back() < rows.dim(-1); ++at.back()) sum += get(rows, at) * get(rows, at);
  return 1 / std::max(std::sqrt(sum), epsilon);
}

Tensor unit_rows(const Tensor& rows, double epsilon) {
  return mapped(rows,
                [&](double x, auto index) { return x * inverse_length(rows, index, epsilon); });
}

// From the gradient of unit_rows(rows).
Tensor unit_rows_backward(const Tensor& rows, const Tensor& gradient, double epsilon) {
  return mapped(gradient, [&](double dy, auto index) {
    const double inverse = inverse_length(rows, index, epsilon);
    if (inverse >= 1 / epsilon) return dy / epsilon;
    std::vector<int64_t> at(index.begin(), index.end());
    double dot = 0;
    for (at.back() = 0; at.back() < rows.dim(-1); ++at.back())
      dot += get(rows, at) * get(gradient, at);
    return dy * inverse - get(rows, index) * dot * inverse * inverse * inverse;
  });
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  check::for_each_index(a.dims(), [&](auto i) {
    const double d = std::fabs(get(a, i) - get(b, i));
    largest = d <= largest ? largest : d;  // a NaN is the largest
  });
  return largest;
}

struct CosineInputs {
  Tensor query, key, value, d_output;

  CosineInputs(Random& random, int64_t q_len, int64_t k_len, int64_t head_dim)
      : query(random_normal(random, DType::f64, {4, q_len, head_dim})),
        key(random_normal(random, DType::f64, {2, k_len, head_dim})),
        value(random_normal(random, DType::f64, {2, k_len, 5})),
        d_output(random_normal(random, DType::f64, {4, q_len, 5})) {
    // A row of zeros, a short one, a long one.
    for (int64_t d = 0; d < head_dim; ++d) {
      set(key, Dims{0, 0, d}, 0);
      set(query, Dims{1, q_len / 2, d}, 0.003 * static_cast<double>(d % 3));
      set(key, Dims{1, k_len - 1, d}, 1000 * static_cast<double>(d + 1));
    }
  }
};

rapt::Gradients gradients_of(const CosineInputs& in, const Tensor& query, const Tensor& key,
                             const AttentionOptions& options, BackwardPasses passes) {
  AttentionResult forward = scaled_dot_product_attention(query, key, in.value, options);
  BackwardInputs inputs;
  inputs.state = forward.state();
  inputs.d_output = in.d_output;
  BackwardRequest request;
  request.passes = passes, request.scale = true;
  return scaled_dot_product_attention_backward(query, key, in.value, options, inputs, request);
}

TEST(Cosine, is_attention_over_rows_of_length_1) {
  Random random(1);
  for (const double epsilon : {1e-12, 0.5})
    for (const bool turns : {false, true})
      for (int n = 0; n < (RAPT_SANITIZED ? 2 : 10); ++n) {
        const CosineInputs in(random, random.between(1, 150), random.between(2, 150),
                              2 * random.between(1, 20));
        Rotary rotary;
        rotary.scaling = rapt::RotaryScaling::yarn, rotary.factor = 4;  // its magnitude stays
        const rapt::Causal causal(rapt::Anchor::bottom_right);
        AttentionOptions plain, cosine;
        plain.scale = cosine.scale = kScale;
        plain.masks = cosine.masks = {&causal};
        cosine.cosine = Cosine{epsilon};
        if (turns) cosine.rotary.embedding = &rotary;
        Tensor query = unit_rows(in.query, epsilon), key = unit_rows(in.key, epsilon);
        if (turns) query = rotary_embedding(query, rotary), key = rotary_embedding(key, rotary);
        const AttentionResult expected = scaled_dot_product_attention(query, key, in.value, plain);
        const AttentionResult got =
            scaled_dot_product_attention(in.query, in.key, in.value, cosine);
        // Rows differ by the roundings of a sum of 40 squares, an angle and two products; scores by
        // `scale` times that; and weights, and outputs as their means, by as much as scores.
        const double u = 0x1p-53, of_rows = 64 * u, of_scores = 4 * kScale * of_rows;
        EXPECT_LE(largest_difference(got.output, expected.output), 8 * of_scores);
        EXPECT_LE(largest_difference(got.statistic, expected.statistic), of_scores + 8 * u);
        for (const BackwardPasses passes : {BackwardPasses::one, BackwardPasses::two}) {
          const rapt::Gradients after = gradients_of(in, query, key, plain, passes);
          const rapt::Gradients before = gradients_of(in, in.query, in.key, cosine, passes);
          Tensor d_query = Tensor::copy_of(after.d_query), d_key = Tensor::copy_of(after.d_key);
          if (turns) {
            d_query = rotary_embedding_backward(d_query, rotary);
            d_key = rotary_embedding_backward(d_key, rotary);
          }
          d_query = unit_rows_backward(in.query, d_query, epsilon);
          d_key = unit_rows_backward(in.key, d_key, epsilon);
          // Sums over 150 queries or keys of numbers of about 10, over the shortest length.
          double shortest = 1;
          for (const Tensor* rows : {&in.query, &in.key})
            check::for_each_index(rows->dims(), [&](auto i) {
              shortest = std::min(shortest, 1 / inverse_length(*rows, i, epsilon));
            });
          const double budget = 150 * 10 * of_scores / shortest;
          EXPECT_LE(largest_difference(before.d_query, d_query), budget);
          EXPECT_LE(largest_difference(before.d_key, d_key), budget);
          EXPECT_LE(largest_difference(before.d_value, after.d_value), 150 * 10 * of_scores);
          EXPECT_NEAR(before.d_scale.values<double>()[0], after.d_scale.values<double>()[0],
                      150 * 150 * 10 * of_scores);
        }
      }
}

// Gradients against differences of the forward pass, on the formula alone.
TEST(Cosine, has_the_gradients_of_finite_differences) {
  Random random(2);
  CosineInputs in(random, 5, 6, 4);
  AttentionOptions options;
  options.scale = kScale, options.cosine = Cosine{1e-3};
  const auto loss = [&] {
    const AttentionResult result =
        scaled_dot_product_attention(in.query, in.key, in.value, options);
    return loss_of(result.output, in.d_output);
  };
  const rapt::Gradients got = gradients_of(in, in.query, in.key, options, BackwardPasses::one);
  const auto compare = [&](Tensor& rows, const Tensor& gradient) {
    size_t n = 0;
    check::for_each_index(rows.dims(), [&](auto i) {
      double& x = rows.values<double>()[n++];
      if (inverse_length(rows, i, 1e-3) > 50) return;  // as short as the step
      // step^2 of a third derivative, and the roundings of the sums over it.
      EXPECT_NEAR(get(gradient, i), central_difference(x, 1e-5, loss), 1e-6);
    });
  };
  compare(in.query, got.d_query);
  compare(in.key, got.d_key);
}

// Rows whose squares, or the squares of whose inverse lengths, overflow or underflow f32. They are
// rows of moderate length times powers of two, and have the same cosines and (divided by the power)
// the same gradients.
TEST(Cosine, of_long_and_short_rows) {
  Random random(6);
  const Tensor query = random_normal(random, DType::f32, {2, 9, 6});
  const Tensor key = random_normal(random, DType::f32, {2, 11, 6});
  const Tensor value = random_normal(random, DType::f32, {2, 11, 5});
  constexpr double kLoud = 0x1p20;  // large d_output: then cubes of inverse lengths matter
  const Tensor d_output = random_normal(random, DType::f32, {2, 9, 5}, kLoud);
  AttentionOptions options;
  options.scale = kScale, options.cosine = Cosine{1e-18};
  struct Results {
    AttentionResult forward;
    rapt::Gradients gradients;
  };
  const auto results_of = [&](double of_queries, double of_keys) {
    const Tensor q = mapped(query, [&](double x, auto) { return x * of_queries; });
    const Tensor k = mapped(key, [&](double x, auto) { return x * of_keys; });
    Results r{scaled_dot_product_attention(q, k, value, options), {}};
    BackwardInputs inputs;
    inputs.state = r.forward.state();
    inputs.d_output = d_output;
    r.gradients = scaled_dot_product_attention_backward(q, k, value, options, inputs);
    const auto times = [](const Tensor& t, double factor) {  // in f64
      Tensor product(DType::f64, t.dims());
      check::for_each_index(t.dims(), [&](auto i) { set(product, i, get(t, i) * factor); });
      return product;
    };
    r.gradients.d_query = times(r.gradients.d_query, of_queries);
    r.gradients.d_key = times(r.gradients.d_key, of_keys);
    return r;
  };
  const Results expected = results_of(1, 1);
  double shortest = 1;
  for (const Tensor* rows : {&query, &key})
    check::for_each_index(rows->dims(), [&](auto i) {
      shortest = std::min(shortest, 1 / inverse_length(*rows, i, 1e-18));
    });
  // As in the first test: a sum of 6 squares, a root, a division and a product; sums of 11 of them.
  const double u = 0x1p-24, of_scores = 4 * kScale * 16 * u;
  for (const double factor : {0x1p30, 0x1p63, 0x1p66, 0x1p120, 0x1p-30, 0x1p-56}) {
    SCOPED_TRACE(factor);
    const Results got = results_of(factor, 1 / factor < 1e-17 ? 1 : 1 / factor);
    EXPECT_LE(largest_difference(got.forward.output, expected.forward.output), 8 * of_scores);
    EXPECT_LE(largest_difference(got.forward.statistic, expected.forward.statistic),
              of_scores + 8 * u);
    const double budget = kLoud * 11 * 10 * of_scores / shortest;
    EXPECT_LE(largest_difference(got.gradients.d_query, expected.gradients.d_query), budget);
    EXPECT_LE(largest_difference(got.gradients.d_key, expected.gradients.d_key), budget);
  }
  // The longest rows that there are: cosines of 1 with themselves.
  const Tensor longest = filled(DType::f32, {1, 300}, 3.4e38);
  const AttentionResult one =
      scaled_dot_product_attention(longest, longest, filled(DType::f32, {1, 1}, 1), options);
  // Sums of 300 equal numbers, each rounded.
  EXPECT_NEAR(get(one.statistic, Dims{0}), kScale, kScale * 300 * u);
}

// NaN and Inf of rows propagate; rows shorter than epsilon are divided by it.
TEST(Cosine, of_rows_that_are_not_divided_by_their_lengths) {
  const Tensor value = filled(DType::f32, {1, 1}, 1), key = filled(DType::f32, {1, 4}, 1);
  AttentionOptions options;
  options.scale = kScale, options.cosine = Cosine{1e-3};
  const auto lse_of = [&](double x) {
    const Tensor query = filled(DType::f32, {1, 4}, x);
    return get(scaled_dot_product_attention(query, key, value, options).statistic, Dims{0});
  };
  EXPECT_TRUE(std::isnan(lse_of(HUGE_VAL)));
  EXPECT_TRUE(std::isnan(lse_of(std::nan(""))));
  EXPECT_EQ(lse_of(0), 0);
  // Divided by epsilon, not by the length, whatever its square is.
  for (const float x : {1e-5f, 1e-12f, 1e-25f, 1e-37f}) {
    const double expected = kScale * 2 * double{x} / 1e-3;
    EXPECT_NEAR(lse_of(double{x}), expected, 1e-6 * expected);
  }
}

// A query without keys has no gradient, even if it is NaN.
TEST(Cosine, gives_unseen_rows_a_gradient_of_zero) {
  Random random(4);
  CosineInputs in(random, 6, 3, 4);
  set(in.query, Dims{2, 1, 0}, std::nan(""));
  set(in.query, Dims{2, 2, 0}, HUGE_VAL);
  const rapt::Causal causal(rapt::Anchor::bottom_right);  // the first three have no keys
  AttentionOptions options;
  options.cosine.emplace();
  options.masks = {&causal};
  const rapt::Gradients got = gradients_of(in, in.query, in.key, options, BackwardPasses::one);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t d = 0; d < 4; ++d) EXPECT_EQ(get(got.d_query, Dims{2, i, d}), 0);
  EXPECT_EQ(largest_difference(got.d_key, got.d_key), 0);  // no NaN
}

TEST(Cosine, refuses_lengths_that_are_none) {
  Random random(5);
  const CosineInputs in(random, 3, 3, 4);
  for (const double epsilon : {0.0, -1.0, std::nan("")}) {
    AttentionOptions options;
    options.cosine = Cosine{epsilon};
    expect_error(rapt::ErrorCode::argument, {"cosine: epsilon"},
                 [&] { scaled_dot_product_attention(in.query, in.key, in.value, options); });
  }
}

}  // namespace
}  // namespace laws

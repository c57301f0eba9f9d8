// Gradients of sparsemax, entmax15 and alpha-entmax: by the dense Jacobian and by differences.
#include "normalizer/entmax_oracle.h"
#include "support/differences.h"
#include "support/sanitizers.h"

namespace laws::entmax {
namespace {

// f64: gradients equal those of the dense Jacobian up to the roundings of sums of at most 700
// terms. At the threshold the slope of sparsemax jumps and that of alphas between 1.5 and 2 is
// steep; a score would have to be within some 1e-14 of the threshold to be on the other side.
TEST(Entmax, GradientsAreThoseOfTheJacobian) {
  Random random(base_seed());
  for (const Member& member : kMembers)
    for (const double spread : {0.1, 1.0, 4.0})
      for (const auto& [q_len, k_len] : {std::pair{1, 1}, {5, 40}, {70, 130}, {40, 700}}) {
        if (RAPT_SANITIZED && k_len == 700) continue;  // takes long
        Problem p(random, DType::f64, q_len, k_len, spread, random.chance(0.5) ? 1 : 0.6);
        for (int64_t j = 0; j < k_len; ++j) set(p.allowed, Dims{0, j}, 0);
        SCOPED_TRACE(testing::Message()
                     << member.text << " spread " << spread << ", " << q_len << " x " << k_len);
        const Results got = results_of(p, member.text);
        expect_gradients(p, member, got.gradients, 1e-9);
        const Results two = results_of(p, member.text, false, rapt::BackwardPasses::two);
        ASSERT_TRUE(same_bits(two.gradients.d_query, got.gradients.d_query));
        ASSERT_TRUE(same_bits(two.gradients.d_key, got.gradients.d_key));
        ASSERT_TRUE(same_bits(two.gradients.d_value, got.gradients.d_value));
      }
}

// The Jacobian of the oracle itself, and with it the library's: central differences in f64.
TEST(Entmax, GradientsAreDifferences) {
  Random random(base_seed());
  for (const Member& member : kMembers) {
    SCOPED_TRACE(member.text);
    Problem p(random, DType::f64, 4, 23, 1.5, 0.8);
    const Results got = results_of(p, member.text);
    const auto loss = [&] {
      const Results r = results_of(p, member.text);
      return loss_of(r.forward.output, p.d_output) + loss_of(r.forward.statistic, p.d_statistic);
    };
    // Roundings of two losses over the step; the second differences are of the order of it.
    constexpr double kAllowed = 2e-5;
    expect_differences("d_query", p.query, got.gradients.d_query, loss, kStep, kAllowed);
    expect_differences("d_key", p.key, got.gradients.d_key, loss, kStep, kAllowed);
    expect_differences("d_value", p.value, got.gradients.d_value, loss, kStep, kAllowed);
  }
}

// In f32: the gradient products over single pairs, which are used where few weights are positive,
// and those over whole tiles.
TEST(Entmax, GradientsInF32) {
  Random random(base_seed());
  for (const Member& member : kMembers)
    for (const double spread : {0.3, 3.0}) {
      // In f32 a score that is on the other side of the threshold of sparsemax is not so rare; and
      // near 1 the power magnifies.
      if (member.alpha > 1.6 || member.alpha < 1.2) continue;
      SCOPED_TRACE(testing::Message() << member.text << " spread " << spread);
      Problem p(random, DType::f64, 50, 260, spread, 0.9, 16, 16);
      for (Tensor* tensor : {&p.query, &p.key, &p.value, &p.d_output, &p.d_statistic}) {
        Tensor narrow(DType::f32, Dims(tensor->dims().begin(), tensor->dims().end()));
        for_each_index(narrow.dims(), [&](auto i) { set(narrow, i, get(*tensor, i)); });
        *tensor = std::move(narrow);
      }
      p.dtype = DType::f32;
      // A slope is off by a relative unit of its weight's distance from the threshold, and that by
      // the rounding of scores: 50 sums of such.
      expect_gradients(p, member, results_of(p, member.text).gradients, 2e-3);
    }
}

// Expects NaN in every gradient of one row of scores and in no other row. Rows are those of d_query
// and, if there is one, of d_bias.
void expect_nan_in_row(const rapt::Gradients& g, int64_t row) {
  for (const Tensor* t : {&g.d_query, &g.d_bias})
    if (t->defined())
      for_each_index(t->dims(), [&](auto i) {
        ASSERT_EQ(std::isnan(get(*t, i)), i[0] == row) << i[0] << ", " << i[1];
      });
}

rapt::Gradients gradients_with_bias(const Problem& p, const char* normalizer, const Tensor& bias) {
  const rapt::MadeNormalizer made = rapt::make_normalizer(normalizer);
  AttentionOptions options;
  options.normalizer = made.ref;
  options.scale = p.scale;
  options.bias = bias;
  AttentionResult forward = scaled_dot_product_attention(p.query, p.key, p.value, options);
  BackwardInputs inputs;
  inputs.state = forward.state();
  inputs.d_output = p.d_output;
  BackwardRequest request;
  request.bias = true;
  return scaled_dot_product_attention_backward(p.query, p.key, p.value, options, inputs, request);
}

// A NaN in a query or in the bias shows in the gradients of its row of scores, whatever the keys.
TEST(Entmax, NaNsShowInGradients) {
  Random random(base_seed());
  for (const Member& member : kMembers)
    for (const int64_t k_len : {1, 7, 200}) {
      SCOPED_TRACE(testing::Message() << member.text << ", " << k_len << " keys");
      Problem p(random, DType::f32, 21, k_len, 2, 1);
      Tensor bias = random_normal(random, DType::f32, {p.q_len, k_len});
      set(bias, Dims{4, k_len / 2}, kNaN);
      expect_nan_in_row(gradients_with_bias(p, member.text, bias), 4);
      set(bias, Dims{4, k_len / 2}, 0);
      set(p.query, Dims{13, 0}, kNaN);
      expect_nan_in_row(gradients_with_bias(p, member.text, bias), 13);
      expect_nan_in_row(results_of(p, member.text).gradients, 13);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
}

// A row whose scores have all overflowed to -inf is not a row without keys: it and its gradients
// are NaN.
TEST(Entmax, RowsOfOverflow) {
  Random random(base_seed());
  std::vector<const char*> texts = {"top_k_softmax(3)", "top_k_softmax(300)"};
  for (const Member& member : kMembers) texts.push_back(member.text);
  for (const char* text : texts) {
    SCOPED_TRACE(text);
    Problem p(random, DType::f32, 21, 200, 2, 1);
    for (int64_t i = 0; i < p.q_len; ++i) set(p.query, Dims{i, 1}, i == 4 ? 1e30 : 0);
    for (int64_t j = 0; j < p.k_len; ++j)
      set(p.key, Dims{j, 1}, -1e30), set(p.allowed, Dims{9, j}, 0);
    const Results got = results_of(p, text);
    for_each_index(got.forward.weights.dims(), [&](auto i) {
      ASSERT_EQ(std::isnan(get(got.forward.weights, i)), i[0] == 4) << i[0];
    });
    for (int64_t i = 0; i < p.q_len; ++i) {
      EXPECT_EQ(std::isnan(get(got.forward.output, Dims{i, 0})), i == 4) << i;
      EXPECT_EQ(std::isnan(get(got.forward.statistic, Dims{i})), i == 4) << i;
    }
    EXPECT_EQ(get(got.forward.statistic, Dims{9}), -kInfinity);
    expect_nan_in_row(got.gradients, 4);
    const Tensor bias = filled(DType::f32, {p.q_len, p.k_len}, 0);
    expect_nan_in_row(gradients_with_bias(p, text, bias), 4);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(Entmax, DropoutDropsWeights) {
  Random random(base_seed());
  for (const char* text : {"sparsemax", "entmax15"}) {
    Problem p(random, DType::f64, 30, 300, 1, 1);
    const rapt::MadeNormalizer made = rapt::make_normalizer(text);
    AttentionOptions options;
    options.normalizer = made.ref;
    options.scale = p.scale;
    options.dropout = {0.4, 99};
    options.weights.emplace();
    AttentionResult r = scaled_dot_product_attention(p.query, p.key, p.value, options);
    Tensor kept(DType::boolean, {p.q_len, p.k_len});
    rapt::dropout_mask(options.dropout, kept);
    for (int64_t i = 0; i < p.q_len; ++i)
      for (int64_t d = 0; d < p.value_dim; ++d) {
        double sum = 0;
        for (int64_t j = 0; j < p.k_len; ++j)
          sum +=
              get(kept, Dims{i, j}) * get(r.weights, Dims{i, j}) * get(p.value, Dims{j, d}) / 0.6;
        ASSERT_NEAR(get(r.output, Dims{i, d}), sum, 1e-8);  // 0.4 is rounded to 2^-32
      }
    // The gradient: the loss is linear in the values, so the difference is exact up to rounding.
    BackwardInputs inputs;
    inputs.state = r.state();
    inputs.d_output = p.d_output;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(p.query, p.key, p.value, options, inputs);
    const auto loss = [&] {
      const AttentionResult at = scaled_dot_product_attention(p.query, p.key, p.value, options);
      return loss_of(at.output, p.d_output);
    };
    expect_differences("d_query", p.query, g.d_query, loss, kStep, 2e-5, 8);
    expect_differences("d_key", p.key, g.d_key, loss, kStep, 2e-5, 8);
    expect_differences("d_value", p.value, g.d_value, loss, kStep, 2e-5, 8);
  }
}

// The mean of equal gradients is that number: each rounding of a sum over a block of keys, and of
// those of the blocks, 2^-24. With one sum over all keys it is off by a percent.
TEST(Entmax, GradientsOfLongRows) {
  constexpr int64_t kKeys = 1 << 20;
  const rapt::MadeNormalizer made = rapt::make_normalizer("sparsemax");
  const Tensor one = filled(DType::f32, {1, 1}, 1), tenth = filled(DType::f32, {1, 1}, 0.1),
               no_bias = filled(DType::f32, {1, 1}, 0);
  TensorView key = one, value = tenth;
  key.shape[0] = value.shape[0] = kKeys;
  key.strides[0] = value.strides[0] = 0;
  for (const TensorView& bias : {TensorView(), no_bias.view()}) {  // by pairs, by whole tiles
    AttentionOptions options;
    options.normalizer = made.ref;
    options.bias = bias;
    AttentionResult forward = scaled_dot_product_attention(one, key, value, options);
    BackwardInputs inputs;
    inputs.state = forward.state();
    inputs.d_output = one;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(one, key, value, options, inputs);
    constexpr double kAllowed = 0.1 * (96 + kKeys / 96.0 + 2) * 0x1p-24;
    for (const int64_t j : {int64_t{0}, kKeys - 1})
      EXPECT_NEAR(get(g.d_key, Dims{j, 0}), 0, kAllowed) << "with a bias: " << bias.defined();
  }
}

// Options that need whole tiles (a bias, its gradient, gradients of scores and of returned weights)
// give the same gradients as pairs alone.
TEST(Entmax, WholeTilesGiveTheSameGradients) {
  Random random(base_seed());
  for (const Member& member : kMembers) {
    SCOPED_TRACE(member.text);
    Problem p(random, DType::f64, 60, 150, 3, 0.9);
    const Results by_pairs = results_of(p, member.text);
    const rapt::Boolean mask(p.allowed);
    const rapt::MadeNormalizer made = rapt::make_normalizer(member.text);
    const rapt::Softcap softcap(5);
    Tensor bias = filled(DType::f64, {p.q_len, p.k_len}, 0);
    AttentionOptions options;
    options.normalizer = made.ref;
    options.masks = {&mask};
    options.scale = p.scale;
    options.bias = bias;
    BackwardInputs inputs;
    inputs.d_output = p.d_output;
    inputs.d_statistic = p.d_statistic;
    BackwardRequest request;
    request.bias = true;
    AttentionResult forward = scaled_dot_product_attention(p.query, p.key, p.value, options);
    inputs.state = forward.state();
    const rapt::Gradients whole =
        scaled_dot_product_attention_backward(p.query, p.key, p.value, options, inputs, request);
    const auto near = [&](const Tensor& got, const Tensor& expected) {
      for_each_index(got.dims(), [&](auto i) {
        ASSERT_NEAR(get(got, i), get(expected, i), 1e-10 * (1 + std::abs(get(expected, i))));
      });
    };
    near(whole.d_query, by_pairs.gradients.d_query);
    near(whole.d_key, by_pairs.gradients.d_key);
    near(whole.d_value, by_pairs.gradients.d_value);

    // Compares with finite differences: softcap, a random bias, and gradients of the weights.
    bias = random_normal(random, DType::f64, {p.q_len, p.k_len});
    const Tensor d_weights = random_normal(random, DType::f64, {p.q_len, p.k_len});
    options.bias = bias;
    options.scores = {softcap};
    options.weights.emplace();
    request.score_parameters = true;
    forward = scaled_dot_product_attention(p.query, p.key, p.value, options);
    inputs.state = forward.state();
    inputs.d_weights = d_weights;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(p.query, p.key, p.value, options, inputs, request);
    expect_differences_with_bias(p, bias, d_weights, options, g);
  }
}

}  // namespace
}  // namespace laws::entmax

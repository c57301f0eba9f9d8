// An alpha of entmax for each head, and its gradient: by the package's number, by differences, and
// by calls of one head each.
#include "normalizer/entmax_oracle.h"
#include "support/differences.h"
#include "support/expect_error.h"

namespace laws::entmax {
namespace {

using rapt::Entmax;
using rapt::ErrorCode;

constexpr int64_t kBatch = 2, kHeads = 3;

struct Heads {
  Tensor query, key, value, d_output, d_tau;

  Heads(Random& random, DType dtype, int64_t q_len, int64_t k_len)
      : query(random_normal(random, dtype, {kBatch, kHeads, q_len, 4}, 1.5)),
        key(random_normal(random, dtype, {kBatch, kHeads, k_len, 4})),
        value(random_normal(random, dtype, {kBatch, kHeads, k_len, 3})),
        d_output(random_normal(random, dtype, {kBatch, kHeads, q_len, 3})),
        d_tau(random_normal(random, dtype, {kBatch, kHeads, q_len})) {}
};

AttentionResult forward_of(const Heads& in, const Entmax& normalizer, const TensorView& bias) {
  AttentionOptions options;
  options.normalizer = normalizer;
  options.bias = bias;
  return scaled_dot_product_attention(in.query, in.key, in.value, options);
}

rapt::Gradients gradients_of(const Heads& in, const Entmax& normalizer, const TensorView& bias = {},
                             rapt::BackwardPasses passes = rapt::BackwardPasses::one,
                             bool learned = true) {
  AttentionOptions options;
  options.normalizer = normalizer;
  options.bias = bias;
  AttentionResult forward = scaled_dot_product_attention(in.query, in.key, in.value, options);
  BackwardInputs inputs;
  inputs.state = forward.state();
  inputs.d_output = in.d_output;
  inputs.d_statistic = in.d_tau;
  BackwardRequest request;
  request.normalizer_parameters = learned;
  request.passes = passes;
  return scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs,
                                               request);
}

// d p_0 / d alpha of (-1, 0, 0.5) at 1.33, as the package entmax prints it; and what p_0 is there.
TEST(EntmaxAlphas, KnownGradient) {
  const Tensor query = filled(DType::f64, {1, 1}, 1);
  Tensor key(DType::f64, {3, 1}), value = filled(DType::f64, {3, 1}, 0);
  const double scores[] = {-1, 0, 0.5};
  for (int64_t j = 0; j < 3; ++j) set(key, Dims{j, 0}, scores[j]);
  set(value, Dims{0, 0}, 1);  // the output is p_0
  const Tensor alphas = filled(DType::f64, {}, 1.33);
  for (const Entmax& normalizer : {Entmax(1.33), Entmax(alphas)}) {
    AttentionOptions options;
    options.normalizer = normalizer;
    options.scale = 1.0;
    AttentionResult forward = scaled_dot_product_attention(query, key, value, options);
    EXPECT_NEAR(get(forward.output, Dims{0, 0}), 0.0460, 5e-5);
    BackwardInputs inputs;
    inputs.state = forward.state();
    inputs.d_output = query;
    BackwardRequest request;
    request.normalizer_parameters = true;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(query, key, value, options, inputs, request);
    ASSERT_EQ(g.d_normalizer_parameters.count(), 1);
    EXPECT_NEAR(get(g.d_normalizer_parameters, Dims{0}), -0.2562, 5e-5);
  }
}

// Central differences in f64, also near 1, where the terms of the published formula cancel; pair by
// pair and, with a bias, by whole tiles. A row gives a rounding of its loss over the step.
TEST(EntmaxAlphas, GradientsAreDifferences) {
  Random random(base_seed());
  for (const auto& [q_len, k_len] : {std::pair{3, 5}, {20, 300}}) {
    const Heads in(random, DType::f64, q_len, k_len);
    const Tensor bias = random_normal(random, DType::f64, {q_len, k_len});
    Tensor alphas(DType::f64, {kBatch, kHeads});
    const double values[] = {1.02, 1.25, 1.33, 1.5, 1.7, 1.99};
    for (int64_t n = 0; n < 6; ++n) set(alphas, Dims{n / kHeads, n % kHeads}, values[n]);
    const Entmax normalizer(alphas);
    for (const TensorView& of_call : {TensorView(), bias.view()}) {
      const rapt::Gradients g = gradients_of(in, normalizer, of_call);
      ASSERT_EQ(g.d_normalizer_parameters.count(), 6);
      const rapt::Gradients two = gradients_of(in, normalizer, of_call, rapt::BackwardPasses::two);
      EXPECT_TRUE(same_bits(two.d_normalizer_parameters, g.d_normalizer_parameters));
      // Requesting it changes no other gradient.
      const rapt::Gradients others =
          gradients_of(in, normalizer, of_call, rapt::BackwardPasses::one, false);
      EXPECT_TRUE(same_bits(others.d_query, g.d_query));
      EXPECT_TRUE(same_bits(others.d_key, g.d_key));
      const auto loss = [&] {
        const AttentionResult r = forward_of(in, normalizer, of_call);
        return loss_of(r.output, in.d_output) + loss_of(r.statistic, in.d_tau);
      };
      for (int64_t n = 0; n < 6; ++n) {
        const double expected =
            central_difference(alphas.values<double>()[static_cast<size_t>(n)], kStep, loss);
        EXPECT_NEAR(get(g.d_normalizer_parameters, Dims{n}), expected,
                    2e-5 * (1 + std::abs(expected)))
            << "alpha " << values[n] << ", " << q_len << " x " << k_len;
      }
    }
  }
}

// As each head by itself, of this alpha; one alpha for all has the sum of their gradients. Without
// keys there is none.
TEST(EntmaxAlphas, HeadsAreCallsOfTheirOwn) {
  Random random(base_seed());
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Heads in(random, dtype, 30, 200);
    Tensor alphas(DType::f64, {kHeads});
    for (int64_t h = 0; h < kHeads; ++h) set(alphas, Dims{h}, 1.2 + 0.3 * static_cast<double>(h));
    const Entmax normalizer(alphas);
    const AttentionResult all = forward_of(in, normalizer, {});
    const rapt::Gradients g = gradients_of(in, normalizer);
    for (int64_t h = 0; h < kHeads; ++h) {
      const Entmax own(get(alphas, Dims{h}));
      double sum = 0;
      for (int64_t b = 0; b < kBatch; ++b) {
        const auto head = [&](const Tensor& t) {
          return t.view().slice(0, b, b + 1).slice(1, h, h + 1);
        };
        AttentionOptions options;
        options.normalizer = own;
        AttentionResult one =
            scaled_dot_product_attention(head(in.query), head(in.key), head(in.value), options);
        for_each_index(one.output.dims(), [&](auto i) {
          ASSERT_EQ(get(one.output, i), get(all.output, Dims{b, h, i[2], i[3]}));
        });
        BackwardInputs inputs;
        inputs.state = one.state();
        inputs.d_output = head(in.d_output);
        inputs.d_statistic = head(in.d_tau);
        BackwardRequest request;
        request.normalizer_parameters = true;
        const rapt::Gradients of_head = scaled_dot_product_attention_backward(
            head(in.query), head(in.key), head(in.value), options, inputs, request);
        sum += get(of_head.d_normalizer_parameters, Dims{0});
        for_each_index(of_head.d_query.dims(), [&](auto i) {
          ASSERT_EQ(get(of_head.d_query, i), get(g.d_query, Dims{b, h, i[2], i[3]}));
        });
      }
      EXPECT_NEAR(get(g.d_normalizer_parameters, Dims{h}), sum, 1e-12 * (1 + std::abs(sum)));
    }
  }
  const Tensor query = filled(DType::f64, {kHeads, 3, 2}, 1), none(DType::f64, {kHeads, 0, 2});
  const Tensor alphas = filled(DType::f32, {kHeads}, 1.5);
  const Entmax normalizer(alphas);
  AttentionOptions options;
  options.normalizer = normalizer;
  AttentionResult forward = scaled_dot_product_attention(query, none, none, options);
  BackwardInputs inputs;
  inputs.state = forward.state();
  inputs.d_output = query;
  const Tensor d_tau = filled(DType::f64, {kHeads, 3}, 1);
  inputs.d_statistic = d_tau;
  BackwardRequest request;
  request.normalizer_parameters = true;
  const rapt::Gradients g =
      scaled_dot_product_attention_backward(query, none, none, options, inputs, request);
  for (const double x : values_of(g.d_normalizer_parameters)) EXPECT_EQ(x, 0);
}

TEST(EntmaxAlphas, BadInput) {
  const Tensor t = filled(DType::f32, {3, 2, 2}, 1);
  const auto refused = [&](const Entmax& normalizer, ErrorCode code, const char* what) {
    AttentionOptions options;
    options.normalizer = normalizer;
    expect_error(code, {"entmax", what}, [&] { scaled_dot_product_attention(t, t, t, options); });
  };
  refused(Entmax(filled(DType::f32, {2}, 1.5)), ErrorCode::shape, "does not broadcast");
  refused(Entmax(filled(DType::i64, {3}, 2)), ErrorCode::dtype, "expected f32 or f64");
  Tensor alphas = filled(DType::f32, {3}, 1.5);
  for (const double bad : {1.0, 0.5, 2.5, kNaN}) {
    set(alphas, Dims{2}, bad);
    refused(Entmax(alphas), ErrorCode::argument, "at 2; expected numbers from 1.01");
  }
  set(alphas, Dims{2}, 2);
  Entmax both(1.5);
  both.alphas = alphas;
  refused(both, ErrorCode::argument, "expected one of them");
  // Planned without numbers, which are read by the call.
  TensorView nowhere = alphas.view();
  nowhere.data = nullptr;
  const Entmax of_nowhere(nowhere), not_given;
  AttentionOptions options;
  options.normalizer = of_nowhere;
  EXPECT_NO_THROW(rapt::plan(t, t, t, options));
  // A default alpha has no gradient.
  options.normalizer = not_given;
  AttentionResult forward = scaled_dot_product_attention(t, t, t, options);
  BackwardInputs inputs;
  inputs.state = forward.state();
  inputs.d_output = t;
  BackwardRequest request;
  request.normalizer_parameters = true;
  expect_error(ErrorCode::argument, {"entmax", "none is given"},
               [&] { scaled_dot_product_attention_backward(t, t, t, options, inputs, request); });
}

}  // namespace
}  // namespace laws::entmax

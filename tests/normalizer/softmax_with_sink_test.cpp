// softmax_with_sink is softmax over the keys and one more per head, of the sink's score and of
// value 0: the same results and gradients as softmax with such a key appended, whose score comes
// from a bias; the gradient of the sink is that of the bias.
#include <gtest/gtest.h>

#include <cmath>

#include "rapt/backward.h"
#include "rapt/catalogue.h"
#include "rapt/mask/boolean.h"
#include "rapt/normalizer/softmax_with_sink.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::BackwardInputs;
using rapt::ErrorCode;
using rapt::SoftmaxWithSink;

constexpr int64_t kBatch = 2, kHeads = 3, kHeadDim = 5, kValueDim = 4;

struct Inputs {
  int64_t q_len, k_len;
  Tensor query, key, value, allowed, d_output, d_lse;

  Inputs(Random& random, int64_t queries, int64_t keys)
      : q_len(queries),
        k_len(keys),
        query(random_normal(random, DType::f64, {kBatch, kHeads, q_len, kHeadDim})),
        key(random_normal(random, DType::f64, {kBatch, kHeads, k_len, kHeadDim})),
        value(random_normal(random, DType::f64, {kBatch, kHeads, k_len, kValueDim})),
        allowed(DType::boolean, {q_len, k_len}),
        d_output(random_normal(random, DType::f64, {kBatch, kHeads, q_len, kValueDim})),
        d_lse(random_normal(random, DType::f64, {kBatch, kHeads, q_len})) {
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(0.6)); });
    for (int64_t j = 0; j < k_len; ++j) set(allowed, Dims{0, j}, 0);  // a query without keys
  }

  // A key of zeros after the others, to which every query attends.
  void append_key() {
    ++k_len;
    key = concatenated(key, filled(DType::f64, {kBatch, kHeads, 1, kHeadDim}, 0), -2);
    value = concatenated(value, filled(DType::f64, {kBatch, kHeads, 1, kValueDim}, 0), -2);
    Tensor wider = filled(DType::boolean, {q_len, k_len}, 1);
    for_each_index(allowed.dims(), [&](auto i) { set(wider, i, get(allowed, i)); });
    allowed = std::move(wider);
  }
};

struct Results {
  AttentionResult forward;
  rapt::Gradients gradients;
};

Results results_of(const Inputs& in, const rapt::NormalizerRef& normalizer,
                   const TensorView& bias = {}) {
  const rapt::Boolean mask(in.allowed);
  AttentionOptions options;
  options.normalizer = normalizer;
  options.masks = {&mask};
  options.bias = bias;
  options.weights.emplace();
  Results r;
  r.forward = scaled_dot_product_attention(in.query, in.key, in.value, options);
  BackwardInputs inputs;
  inputs.state = r.forward.state();
  inputs.d_output = in.d_output;
  inputs.d_statistic = in.d_lse;
  rapt::BackwardRequest request;
  request.bias = bias.defined();
  request.normalizer_parameters = normalizer.declaration == &SoftmaxWithSink::kDeclaration;
  r.gradients =
      scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs, request);
  return r;
}

// Both are f64: they differ by roundings alone, of sums of at most 300 terms near 1. Elements of
// `got`, which may have fewer keys.
void expect_near(const char* name, const Tensor& got, const Tensor& expected) {
  for_each_index(got.dims(),
                 [&](auto at) { ASSERT_NEAR(get(got, at), get(expected, at), 1e-13) << name; });
}

TEST(SoftmaxWithSink, IsSoftmaxWithAKeyMorePerHead) {
  Random random(base_seed());
  for (const int64_t q_len : {1, 7, 40})
    for (const int64_t k_len : {1, 5, 130, 300})
      for (const Dims& dims : {Dims{kHeads}, Dims{kBatch, kHeads}, Dims{kBatch, 1}, Dims{}}) {
        SCOPED_TRACE(testing::Message()
                     << q_len << " x " << k_len << ", sinks " << to_string(dims));
        Inputs in(random, q_len, k_len);
        const Tensor sinks = random_normal(random, DType::f64, dims, 2);
        const auto place_of = [&](std::span<const int64_t> head) {
          Dims at;
          for (size_t d = 0; d < dims.size(); ++d)
            at.push_back(dims[d] == 1 ? 0 : head[2 - dims.size() + d]);
          return at;
        };
        const SoftmaxWithSink with_sink(sinks);
        const Results got = results_of(in, with_sink);
        in.append_key();
        Tensor bias = filled(DType::f64, {kBatch, kHeads, q_len, k_len + 1}, 0);
        for_each_index(bias.dims(), [&](auto i) {
          if (i[3] == k_len) set(bias, i, get(sinks, place_of(i.first(2))));
        });
        const Results expected = results_of(in, rapt::kSoftmax, bias);
        expect_near("output", got.forward.output, expected.forward.output);
        expect_near("lse", got.forward.statistic, expected.forward.statistic);
        expect_near("weights", got.forward.weights, expected.forward.weights);
        expect_near("d_query", got.gradients.d_query, expected.gradients.d_query);
        expect_near("d_key", got.gradients.d_key, expected.gradients.d_key);
        expect_near("d_value", got.gradients.d_value, expected.gradients.d_value);
        Tensor d_sinks = filled(DType::f64, dims, 0);
        for_each_index(bias.dims(), [&](auto i) {
          const Dims at = place_of(i.first(2));
          if (i[3] == k_len) set(d_sinks, at, get(d_sinks, at) + get(expected.gradients.d_bias, i));
        });
        const auto d = got.gradients.d_normalizer_parameters.values<double>();
        const std::vector<double> wanted = values_of(d_sinks);
        ASSERT_EQ(d.size(), wanted.size());
        for (size_t n = 0; n < wanted.size(); ++n) EXPECT_NEAR(d[n], wanted[n], 1e-12) << n;
      }
}

TEST(SoftmaxWithSink, WithoutKeysTheLseIsTheSink) {
  const Tensor query = filled(DType::f32, {2, 3, 2}, 1), none(DType::f32, {2, 0, 2});
  const Tensor sinks = filled(DType::f32, {2}, 1.5);
  const SoftmaxWithSink with_sink(sinks);
  AttentionOptions options;
  options.normalizer = with_sink;
  const AttentionResult r = scaled_dot_product_attention(query, none, none, options);
  for (const double x : values_of(r.output)) EXPECT_EQ(x, 0);
  for (const double lse : values_of(r.statistic)) EXPECT_FLOAT_EQ(static_cast<float>(lse), 1.5f);
}

// A sink of 0 is softmax_plus_one; one far below all scores, softmax.
TEST(SoftmaxWithSink, ItsEnds) {
  Random random(base_seed());
  const Inputs in(random, 20, 50);
  const Tensor zero = filled(DType::f64, {}, 0), far = filled(DType::f64, {}, -1e4);
  const SoftmaxWithSink at_zero(zero), far_away(far);
  const rapt::SoftmaxPlusOne plus_one;
  AttentionOptions options;
  const auto output_by = [&](const rapt::NormalizerRef& normalizer) {
    options.normalizer = normalizer;
    return scaled_dot_product_attention(in.query, in.key, in.value, options).output;
  };
  EXPECT_TRUE(same_bits(output_by(at_zero), output_by(plus_one)));
  expect_near("far", output_by(far_away), output_by(rapt::kSoftmax));
}

// A sink of -inf is none: softmax, bit for bit within a block of keys (softmax_with_sink keeps its
// maxima otherwise), and a gradient of 0, also beside a query without keys, whose lse is -inf, too.
TEST(SoftmaxWithSink, OfMinusInfinityIsNone) {
  Random random(base_seed());
  const Tensor none = filled(DType::f64, {kHeads}, -HUGE_VAL);
  const SoftmaxWithSink without_sink(none);
  for (const int64_t k_len : {1, 5, 300}) {
    SCOPED_TRACE(k_len);
    const Inputs in(random, 7, k_len);
    const Results got = results_of(in, without_sink), expected = results_of(in, rapt::kSoftmax);
    const auto expect_same = [&](const char* name, const Tensor& a, const Tensor& b) {
      if (k_len < 10)
        EXPECT_TRUE(same_bits(a, b)) << name;
      else
        expect_near(name, a, b);
    };
    expect_same("output", got.forward.output, expected.forward.output);
    expect_same("weights", got.forward.weights, expected.forward.weights);
    expect_same("d_query", got.gradients.d_query, expected.gradients.d_query);
    expect_same("d_key", got.gradients.d_key, expected.gradients.d_key);
    expect_same("d_value", got.gradients.d_value, expected.gradients.d_value);
    for_each_index(got.forward.statistic.dims(), [&](auto at) {
      const double lse = get(got.forward.statistic, at);
      const double wanted = get(expected.forward.statistic, at);
      if (std::isinf(wanted))
        EXPECT_EQ(lse, wanted);
      else
        EXPECT_NEAR(lse, wanted, 1e-13);
    });
    for (const double d : values_of(got.gradients.d_normalizer_parameters)) EXPECT_EQ(d, 0);
  }
}

TEST(SoftmaxWithSink, BadInput) {
  const Tensor t = filled(DType::f32, {3, 2, 2}, 1);
  const auto refused = [&](const TensorView& sinks, ErrorCode code, const char* what) {
    const SoftmaxWithSink with_sink(sinks);
    AttentionOptions options;
    options.normalizer = with_sink;
    expect_error(code, {"softmax_with_sink", what},
                 [&] { scaled_dot_product_attention(t, t, t, options); });
  };
  refused({}, ErrorCode::argument, "sinks is missing");
  refused(filled(DType::f32, {2}, 0), ErrorCode::shape, "does not broadcast");
  refused(filled(DType::i64, {3}, 0), ErrorCode::dtype, "expected f32 or f64");
  expect_error(ErrorCode::argument, {"softmax_with_sink", "sinks"},
               [] { rapt::make_normalizer("softmax_with_sink"); });
  // A normaliser whose parameters have no gradients.
  AttentionOptions options;
  const AttentionResult forward = scaled_dot_product_attention(t, t, t, options);
  AttentionResult state = scaled_dot_product_attention(t, t, t, options);
  BackwardInputs inputs;
  inputs.state = state.state();
  inputs.d_output = forward.output;
  rapt::BackwardRequest request;
  request.normalizer_parameters = true;
  expect_error(ErrorCode::unsupported, {"softmax", "have no gradients"},
               [&] { scaled_dot_product_attention_backward(t, t, t, options, inputs, request); });
}

}  // namespace
}  // namespace laws

// softmax_plus_one is softmax over the keys and one more of score 0 and value 0: the same results
// and gradients as softmax with such a key appended.
#include <gtest/gtest.h>

#include <cmath>

#include "rapt/backward.h"
#include "rapt/catalogue.h"
#include "rapt/mask/boolean.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::BackwardInputs;
using rapt::ErrorCode;

constexpr rapt::SoftmaxPlusOne kPlusOne{};

// [n, dim] with a row of zeros after it.
Tensor with_zeros(const Tensor& rows) {
  Tensor longer = filled(rows.dtype(), {rows.dim(0) + 1, rows.dim(1)}, 0);
  for_each_index(rows.dims(), [&](auto i) { set(longer, i, get(rows, i)); });
  return longer;
}

struct Inputs {
  Tensor query, key, value, allowed, d_output, d_lse;

  Inputs(Random& random, int64_t q_len, int64_t k_len)
      : query(random_normal(random, DType::f64, {q_len, 5})),
        key(random_normal(random, DType::f64, {k_len, 5})),
        value(random_normal(random, DType::f64, {k_len, 3})),
        allowed(DType::boolean, {q_len, k_len}),
        d_output(random_normal(random, DType::f64, {q_len, 3})),
        d_lse(random_normal(random, DType::f64, {q_len})) {
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(0.6)); });
    for (int64_t j = 0; j < k_len; ++j) set(allowed, Dims{0, j}, 0);  // a query without keys
  }
  // With one more key, to which every query attends.
  void append_key() {
    key = with_zeros(key);
    value = with_zeros(value);
    Tensor wider = filled(DType::boolean, {allowed.dim(0), allowed.dim(1) + 1}, 1);
    for_each_index(allowed.dims(), [&](auto i) { set(wider, i, get(allowed, i)); });
    allowed = std::move(wider);
  }
};

struct Results {
  AttentionResult forward;
  rapt::Gradients gradients;
};

Results results_of(const Inputs& in, const rapt::NormalizerRef& normalizer) {
  const rapt::Boolean mask(in.allowed);
  AttentionOptions options;
  options.normalizer = normalizer;
  options.masks = {&mask};
  options.weights.emplace();
  options.received = true;
  Results r;
  r.forward = scaled_dot_product_attention(in.query, in.key, in.value, options);
  BackwardInputs inputs;
  inputs.state = r.forward.state();
  inputs.d_output = in.d_output;
  inputs.d_statistic = in.d_lse;
  rapt::BackwardRequest request;
  request.scale = true;
  r.gradients =
      scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs, request);
  return r;
}

// Both are f64: they differ by roundings alone, of sums of at most 300 terms near 1.
void expect_near(const char* name, const Tensor& got, const Tensor& expected, int64_t rows,
                 int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < columns; ++c) {
      const Dims at = got.rank() == 1 ? Dims{i} : Dims{i, c};
      ASSERT_NEAR(get(got, at), get(expected, at), 1e-13) << name << " " << i << ", " << c;
    }
}

TEST(SoftmaxPlusOne, IsSoftmaxWithAKeyOfZeros) {
  Random random(base_seed());
  for (const int64_t q_len : {1, 7, 40})
    for (const int64_t k_len : {1, 5, 130, 300}) {
      SCOPED_TRACE(testing::Message() << q_len << " x " << k_len);
      Inputs in(random, q_len, k_len);
      const Results got = results_of(in, kPlusOne);
      in.append_key();
      const Results expected = results_of(in, rapt::kSoftmax);
      expect_near("output", got.forward.output, expected.forward.output, q_len, 3);
      expect_near("lse", got.forward.statistic, expected.forward.statistic, q_len, 1);
      expect_near("weights", got.forward.weights, expected.forward.weights, q_len, k_len);
      expect_near("received", got.forward.received, expected.forward.received, k_len, 1);
      expect_near("d_query", got.gradients.d_query, expected.gradients.d_query, q_len, 5);
      expect_near("d_key", got.gradients.d_key, expected.gradients.d_key, k_len, 5);
      expect_near("d_value", got.gradients.d_value, expected.gradients.d_value, k_len, 3);
    }
}

// Two keys of score 0 share with the one: a third each; and far below 0 nothing is left.
TEST(SoftmaxPlusOne, KnownWeights) {
  const Tensor query = filled(DType::f32, {2, 1}, 1), zeros = filled(DType::f32, {2, 1}, 0),
               far = filled(DType::f32, {2, 1}, -200), value = filled(DType::f32, {2, 1}, 3);
  AttentionOptions options;
  options.normalizer = kPlusOne;
  options.scale = 1.0;
  const AttentionResult third = scaled_dot_product_attention(query, zeros, value, options);
  EXPECT_FLOAT_EQ(third.output.values<float>()[0], 2);
  EXPECT_FLOAT_EQ(third.statistic.values<float>()[0], std::log(3.0f));
  const AttentionResult nothing = scaled_dot_product_attention(query, far, value, options);
  EXPECT_EQ(nothing.output.values<float>()[1], 0);
  EXPECT_EQ(nothing.statistic.values<float>()[1], 0);
}

TEST(SoftmaxPlusOne, WithoutKeysThereIsTheOneAlone) {
  const Tensor query = filled(DType::f32, {3, 2}, 1), none(DType::f32, {0, 2});
  AttentionOptions options;
  options.normalizer = kPlusOne;
  const AttentionResult r = scaled_dot_product_attention(query, none, none, options);
  for (const double x : values_of(r.output)) EXPECT_EQ(x, 0);
  for (const double lse : values_of(r.statistic)) EXPECT_EQ(lse, 0);
}

TEST(SoftmaxPlusOne, HasNoEntropyAndNoMerge) {
  const Tensor t = filled(DType::f32, {2, 2}, 1);
  AttentionOptions options;
  options.normalizer = kPlusOne;
  AttentionResult one = scaled_dot_product_attention(t, t, t, options),
                  other = scaled_dot_product_attention(t, t, t, options);
  expect_error(ErrorCode::unsupported, {"softmax_plus_one"},
               [&] { rapt::merge(one.state(), other.state(), kPlusOne); });
  options.entropy = true;
  expect_error(ErrorCode::unsupported, {"softmax_plus_one"},
               [&] { scaled_dot_product_attention(t, t, t, options); });
}

TEST(SoftmaxPlusOne, ByName) {
  const rapt::MadeNormalizer made = rapt::make_normalizer("softmax_plus_one");
  EXPECT_STREQ(made.ref.declaration->name, "softmax_plus_one");
  expect_error(ErrorCode::argument, {"softmax_plus_one"},
               [] { rapt::make_normalizer("softmax_plus_one(2)"); });
  expect_error(ErrorCode::unknown_name, {"did you mean softmax_plus_one?"},
               [] { rapt::make_normalizer("softmax_plus_on"); });
}

}  // namespace
}  // namespace laws

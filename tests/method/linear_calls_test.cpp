// Calls of favor and linear beside their results: gradients alone, masks together, the state over
// threads, progress and cancellation. None of it depends on the instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/method/favor.h"
#include "rapt/method/linear.h"
#include "support/call.h"
#include "support/executors.h"

namespace laws {
namespace {

constexpr int64_t kTokens = 1300;  // more than 16 chunks of 64, the block that threads share

struct LinearInputs {
  Tensor query, key, value;

  explicit LinearInputs(int64_t heads) {
    Random random(31);
    query = random_normal(random, DType::f32, {heads, kTokens, 8});
    key = random_normal(random, DType::f32, {heads, kTokens, 8});
    value = random_normal(random, DType::f32, {heads, kTokens, 5});
    // Keys grow, so that the power of a state of favor rises.
    for (int64_t i = 0; i < key.count(); ++i)
      key.values<float>()[static_cast<size_t>(i)] *= static_cast<float>(1 + i / 8 % kTokens / 400);
  }
};

struct BothMethods {
  rapt::Favor favor;
  rapt::Linear linear;
  BothMethods() { favor.features = 40; }
  std::vector<const rapt::Method*> all() const { return {&favor, &linear}; }
};

TEST(LinearCalls, AGradientAloneHasTheBitsOfAll) {
  const LinearInputs in(2);
  const BothMethods methods;
  const rapt::Causal causal;
  for (const rapt::Method* method : methods.all()) {
    const AttentionOptions options{.masks = {&causal}, .method = method};
    AttentionResult forward = scaled_dot_product_attention(in.query, in.key, in.value, options);
    rapt::BackwardInputs inputs;
    inputs.state = forward.state(), inputs.d_output = forward.output;
    const auto gradients = [&](bool query, bool key, bool value) {
      rapt::BackwardRequest request;
      request.query = query, request.key = key, request.value = value;
      return scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs,
                                                   request);
    };
    const rapt::Gradients all = gradients(true, true, true);
    EXPECT_TRUE(same_bits(gradients(true, false, false).d_query, all.d_query));
    EXPECT_TRUE(same_bits(gradients(false, true, false).d_key, all.d_key));
    EXPECT_TRUE(same_bits(gradients(false, false, true).d_value, all.d_value));
  }
}

// Queries behind the length attend to all keys within it.
TEST(LinearCalls, CausalWithLengths) {
  const LinearInputs in(1);
  const BothMethods methods;
  const rapt::Causal causal;
  const int64_t length = 70;
  const rapt::Lengths lengths(TensorView(&length, {1}));
  for (const rapt::Method* method : methods.all()) {
    const AttentionResult all = scaled_dot_product_attention(
        in.query, in.key, in.value, {.masks = {&causal, &lengths}, .method = method});
    const auto part = [](const Tensor& t, int64_t first, int64_t end) {
      return t.view().slice(1, first, end);
    };
    const AttentionResult within =
        scaled_dot_product_attention(part(in.query, 0, 70), part(in.key, 0, 70),
                                     part(in.value, 0, 70), {.masks = {&causal}, .method = method});
    const AttentionResult behind =
        scaled_dot_product_attention(part(in.query, 70, kTokens), part(in.key, 0, 70),
                                     part(in.value, 0, 70), {.method = method});
    EXPECT_TRUE(same_bits(Tensor::copy_of(part(all.output, 0, 70)), within.output));
    // Queries of the chunk in which the sequence ends sum it as one of their own, not as a state.
    EXPECT_TRUE(same_bits(Tensor::copy_of(part(all.output, 128, kTokens)),
                          Tensor::copy_of(part(behind.output, 58, kTokens - 70))));
  }
}

TEST(LinearCalls, ThreadsChangeNoBitOfAState) {
  const LinearInputs in(1);
  BothMethods methods;
  for (const bool is_favor : {true, false}) {
    const auto state_of = [&](int threads) {
      Tensor state(DType::f32, {1, is_favor ? 41 : 9, 6});
      (is_favor ? methods.favor.final_state : methods.linear.final_state) = state.view();
      Threads executor(threads);
      Context context;
      context.executor = &executor;
      (void)scaled_dot_product_attention(in.query, in.key, in.value,
                                         {.method = methods.all()[is_favor ? 0 : 1]}, context);
      return state;
    };
    EXPECT_TRUE(same_bits(state_of(3), state_of(1)));
  }
}

// Products of pairs of dimensions as a function of the caller's own: weights (x . y)^2. It has no
// backward function.
struct Pairs {
  static void apply(const void*, const double* x, int64_t dims, double* phi) noexcept {
    for (int64_t i = 0; i < dims; ++i)
      for (int64_t j = 0; j < dims; ++j) phi[i * dims + j] = x[i] * x[j];
  }
};

// The map elu as two functions has the results of the catalogue's: the same loops in double.
struct OwnElu {
  static void apply(const void* calls, const double* x, int64_t dims, double* phi) noexcept {
    static_cast<std::atomic<int>*>(const_cast<void*>(calls))->fetch_add(1);
    for (int64_t i = 0; i < dims; ++i) phi[i] = x[i] > 0 ? x[i] + 1 : std::exp(x[i]);
  }
  static void backward(const void*, const double* x, int64_t dims, const double* phi,
                       const double* d_phi, double* d_x) noexcept {
    for (int64_t i = 0; i < dims; ++i) d_x[i] = d_phi[i] * (x[i] > 0 ? 1 : phi[i]);
  }
};

void expect_near(const Tensor& got, const Tensor& expected, double roundings) {
  double largest = 0;
  for (const float x : expected.values<float>()) largest = std::max<double>(largest, std::abs(x));
  for (size_t i = 0; i < got.values<float>().size(); ++i)
    ASSERT_NEAR(got.values<float>()[i], expected.values<float>()[i], roundings * 0x1p-23 * largest)
        << i;
}

TEST(LinearCalls, AMapOfYourOwn) {
  const LinearInputs in(2);
  const rapt::Causal causal;
  std::atomic<int> calls = 0;
  const rapt::OwnFeatures elu{
      .features = 8, .apply = OwnElu::apply, .backward = OwnElu::backward, .user = &calls};
  rapt::Linear own, listed;
  own.own = &elu;
  for (const bool is_causal : {false, true}) {
    const auto results = [&](const rapt::Linear& linear) {
      AttentionOptions options{.method = &linear};
      if (is_causal) options.masks = {&causal};
      AttentionResult forward = scaled_dot_product_attention(in.query, in.key, in.value, options);
      rapt::BackwardInputs inputs;
      inputs.state = forward.state(), inputs.d_output = forward.output;
      rapt::Gradients gradients =
          scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs);
      return std::pair(std::move(forward), std::move(gradients));
    };
    const auto [a, da] = results(own);
    const auto [b, db] = results(listed);
    // Features differ by 4 roundings at most (e^x in f32), of query and key, above and below the
    // division; a gradient reads features of three tokens.
    expect_near(a.output, b.output, 16);
    expect_near(da.d_query, db.d_query, 64);
    expect_near(da.d_key, db.d_key, 64);
    expect_near(da.d_value, db.d_value, 64);
  }
  EXPECT_GE(calls, 4 * kTokens);
}

// Features of one's own that no map of the catalogue has, beside the sums of their weights.
TEST(LinearCalls, AMapOfPairsOfDimensions) {
  const LinearInputs in(1);
  const rapt::OwnFeatures pairs{.features = 64, .apply = Pairs::apply};
  rapt::Linear linear;
  linear.own = &pairs;
  const AttentionOptions options{.scale = 1, .method = &linear};
  AttentionResult got = scaled_dot_product_attention(in.query, in.key, in.value, options);
  for (const int64_t i : {int64_t{0}, int64_t{77}, kTokens - 1}) {
    double sum = 0, weights = 0, size = 0;
    for (int64_t j = 0; j < kTokens; ++j) {
      double score = 0;
      for (int64_t d = 0; d < 8; ++d)
        score += get(in.query, Dims{0, i, d}) * get(in.key, Dims{0, j, d});
      const double v = get(in.value, Dims{0, j, 2});
      sum += score * score * v, weights += score * score, size += score * score * std::abs(v);
    }
    // 64 features of which each product rounds once, whose signs cancel by less than 64.
    EXPECT_NEAR(get(got.output, Dims{0, i, 2}), sum / weights, 64 * 0x1p-23 * size / weights);
  }
  rapt::BackwardInputs inputs;
  inputs.state = got.state(), inputs.d_output = got.output;
  try {
    (void)scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs);
    ADD_FAILURE() << "accepted";
  } catch (const rapt::Error& error) {
    EXPECT_STREQ(error.argument(), "own");
  }
  const rapt::OwnFeatures none;
  linear.own = &none;
  EXPECT_THROW((void)scaled_dot_product_attention(in.query, in.key, in.value, options),
               rapt::Error);
}

// The last report is 1, however many threads share a head and whatever gradients are wanted.
TEST(LinearCalls, ProgressEndsAtOne) {
  const BothMethods methods;
  const rapt::Causal causal;
  for (const int64_t heads : {1, 5})
    for (const bool is_causal : {false, true})
      for (const rapt::Method* method : methods.all()) {
        const LinearInputs in(heads);
        AttentionOptions options{.method = method};
        if (is_causal) options.masks = {&causal};
        Threads executor(16);
        double last = 0;
        Context context;
        context.executor = &executor;
        context.progress = {[](void* user, double fraction) {
                              EXPECT_GE(fraction, *static_cast<double*>(user));
                              *static_cast<double*>(user) = fraction;
                            },
                            &last};
        AttentionResult forward =
            scaled_dot_product_attention(in.query, in.key, in.value, options, context);
        EXPECT_EQ(last, 1);
        rapt::BackwardInputs inputs;
        inputs.state = forward.state(), inputs.d_output = forward.output;
        for (const bool keys : {true, false}) {
          rapt::BackwardRequest request;
          request.key = request.value = keys;
          last = 0;
          (void)scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs,
                                                      request, context);
          EXPECT_EQ(last, 1) << keys;
        }
      }
}

TEST(LinearCalls, ACancelledCallStops) {
  const LinearInputs in(1);
  const BothMethods methods;
  for (const rapt::Method* method : methods.all()) {
    rapt::CancelToken token;
    Threads executor(3);
    Context context;
    context.executor = &executor, context.cancel = &token;
    context.progress = {[](void* user, double) { static_cast<rapt::CancelToken*>(user)->cancel(); },
                        &token};
    try {
      (void)scaled_dot_product_attention(in.query, in.key, in.value, {.method = method}, context);
      ADD_FAILURE() << "finished";
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), rapt::ErrorCode::cancelled);
    }
  }
}

}  // namespace
}  // namespace laws

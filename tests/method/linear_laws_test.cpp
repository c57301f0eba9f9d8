// What favor and linear keep: causality, states, threads, masked NaN, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "rapt/backward.h"
#include "rapt/catalogue.h"
#include "rapt/mask/causal.h"
#include "rapt/method/favor.h"
#include "rapt/method/linear.h"
#include "support/call.h"
#include "support/executors.h"

namespace laws {
namespace {

constexpr double kQuietNan = std::numeric_limits<double>::quiet_NaN();

Tensor random_rows(std::initializer_list<int64_t> shape, unsigned seed, float deviation = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, deviation);
  Tensor t(DType::f32, shape);
  for (float& x : t.values<float>()) x = normal(generator);
  return t;
}

struct Rows {
  Tensor query, key, value;

  explicit Rows(int64_t n, int64_t heads = 1, float deviation = 1)
      : query(random_rows({heads, n, 16}, 1, deviation)),
        key(random_rows({heads, n, 16}, 2, deviation)),
        value(random_rows({heads, n, 12}, 3)) {}
  AttentionResult attend(const AttentionOptions& options, const Context& context = {}) const {
    return scaled_dot_product_attention(query, key, value, options, context);
  }
};

rapt::Favor favor_of(int64_t features) {
  rapt::Favor favor;
  favor.features = features;
  return favor;
}

// Also where later keys have features that are 2^100 times as large, and where they are NaN.
TEST(LinearLaws, LaterTokensChangeNoBit) {
  const rapt::Favor favor = favor_of(40);
  const rapt::Linear linear;
  const rapt::Causal causal;
  const rapt::Mask* masks[] = {&causal};
  for (const rapt::Method* method :
       {static_cast<const rapt::Method*>(&favor), static_cast<const rapt::Method*>(&linear)}) {
    const AttentionOptions options{.masks = masks, .method = method};
    const AttentionResult expected = Rows(300).attend(options);
    for (const int64_t t : {1, 63, 64, 70, 200})
      for (const double by : {6.0, 60.0, kQuietNan}) {
        Rows edited(300);
        for (Tensor* x : {&edited.query, &edited.key, &edited.value}) {
          const int64_t dims = x->dim(-1);
          for (int64_t i = t * dims; i < 300 * dims; ++i)
            x->values<float>()[static_cast<size_t>(i)] *= static_cast<float>(by);
        }
        const AttentionResult got = edited.attend(options);
        EXPECT_TRUE(same_bits(Tensor::copy_of(got.output.view().slice(1, 0, t)),
                              Tensor::copy_of(expected.output.view().slice(1, 0, t))))
            << t << " times " << by;
        EXPECT_TRUE(same_bits(Tensor::copy_of(got.statistic.view().slice(1, 0, t)),
                              Tensor::copy_of(expected.statistic.view().slice(1, 0, t))))
            << t << " times " << by;
        EXPECT_EQ(std::isnan(get(got.output, Dims{0, t, 0})), std::isnan(by)) << t;
      }
  }
}

Tensor as_f64(const Tensor& t) {
  Tensor wide(DType::f64, t.view().dims());
  std::ranges::copy(t.values<float>(), wide.values<double>().begin());
  return wide;
}

double largest(const Tensor& t) {
  double most = 0;
  for (const double x : t.values<double>()) most = std::max(most, std::abs(x));
  return most;
}

// The largest error of f32 rows [first, ...) of an output.
double error_of(const Tensor& got, const Tensor& truth, int64_t first) {
  double error = 0;
  const int64_t dims = got.dim(-1), n = got.dim(-2);
  for (int64_t h = 0; h < got.dim(0); ++h)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t d = 0; d < dims; ++d)
        error =
            std::max(error, std::abs(get(got, Dims{h, i, d}) - get(truth, Dims{h, first + i, d})));
  return error;
}

// Parts of whole chunks have the bits of one call; other parts its numbers, with at most twice the
// error of one call and a rounding.
TEST(LinearLaws, AStateContinuesASequence) {
  const rapt::Causal causal;
  const rapt::Mask* masks[] = {&causal};
  const Rows rows(320, 2);
  const rapt::Favor whole = favor_of(40);
  const AttentionOptions of_whole{.masks = masks, .method = &whole};
  const AttentionResult expected = rows.attend(of_whole);
  const Tensor truth = scaled_dot_product_attention(as_f64(rows.query), as_f64(rows.key),
                                                    as_f64(rows.value), of_whole)
                           .output;
  const double allowed = 2 * error_of(expected.output, truth, 0) + 0x1p-23 * largest(truth);
  for (const int64_t part : {64, 128, 50, 1}) {
    Tensor state(DType::f32, {2, 41, 13}), next(DType::f32, {2, 41, 13});
    for (int64_t first = 0; first < 320; first += part) {
      const int64_t end = std::min<int64_t>(first + part, 320);
      rapt::Favor favor = favor_of(40);
      if (first > 0) favor.initial_state = state.view();
      favor.final_state = next.view();
      const auto slice = [&](const Tensor& t) { return t.view().slice(1, first, end); };
      const AttentionResult got =
          scaled_dot_product_attention(slice(rows.query), slice(rows.key), slice(rows.value),
                                       {.masks = masks, .method = &favor});
      std::swap(state, next);
      if (part % 64 == 0) {
        EXPECT_TRUE(same_bits(got.output, Tensor::copy_of(slice(expected.output)))) << part;
        EXPECT_TRUE(same_bits(got.statistic, Tensor::copy_of(slice(expected.statistic)))) << part;
      } else {
        EXPECT_LE(error_of(got.output, truth, first), allowed) << part << " from " << first;
      }
    }
  }
}

TEST(LinearLaws, ThreadsChangeNoBit) {
  const rapt::Favor favor = favor_of(72);
  const rapt::Causal causal;
  const rapt::Mask* masks[] = {&causal};
  for (const int64_t heads : {1, 3})
    for (const bool is_causal : {false, true}) {
      AttentionOptions options{.method = &favor};
      if (is_causal) options.masks = masks;
      Rows rows(2500, heads);
      for (int64_t i = 0; i < rows.key.count();
           ++i)  // the power of the state rises, and then falls
        rows.key.values<float>()[static_cast<size_t>(i)] *=
            static_cast<float>(1 + i / 16 % 2500 % 2000 / 500);
      Context alone;
      alone.threads = 1;
      const auto gradients = [&](AttentionResult& forward, const Context& context) {
        rapt::BackwardInputs inputs;
        inputs.state = forward.state(), inputs.d_output = forward.output;
        return scaled_dot_product_attention_backward(rows.query, rows.key, rows.value, options,
                                                     inputs, {}, context);
      };
      AttentionResult expected = rows.attend(options, alone);
      const rapt::Gradients of_one = gradients(expected, alone);
      for (const int threads : {2, 3}) {
        Threads executor(threads);
        Context context;
        context.executor = &executor;
        AttentionResult got = rows.attend(options, context);
        EXPECT_TRUE(same_results(got, expected));
        const rapt::Gradients g = gradients(got, context);
        EXPECT_TRUE(same_bits(g.d_query, of_one.d_query));
        EXPECT_TRUE(same_bits(g.d_key, of_one.d_key));
        EXPECT_TRUE(same_bits(g.d_value, of_one.d_value));
      }
    }
}

// A power of a state that is no number is as if its sums were none.
TEST(LinearLaws, ANanPowerOfAStateShows) {
  const rapt::Causal causal;
  const rapt::Mask* masks[] = {&causal};
  const Rows rows(70);
  rapt::Favor favor = favor_of(40);
  rapt::Linear linear;
  for (const double power : {kQuietNan, std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()})
    for (const bool is_favor : {true, false}) {
      Tensor state = random_rows({1, is_favor ? 41 : 17, 13}, 7);
      set(state, Dims{0, is_favor ? 40 : 16, 0}, power);
      favor.initial_state = is_favor ? state.view() : TensorView();
      linear.initial_state = is_favor ? TensorView() : state.view();
      for (const bool is_causal : {false, true}) {
        AttentionOptions options{.method =
                                     is_favor ? static_cast<const rapt::Method*>(&favor) : &linear};
        if (is_causal) options.masks = masks;
        const AttentionResult got = rows.attend(options);
        for (const Tensor* t : {&got.output, &got.statistic})
          EXPECT_TRUE(std::ranges::all_of(t->values<float>(), [](float x) { return x != x; }))
              << power;
      }
    }
}

// The state of no tokens has a power that says so: a call behind it is one without a state.
TEST(LinearLaws, AStateOfNoTokensIsAsNone) {
  const Rows rows(70), none(0);
  Tensor state(DType::f32, {1, 41, 13});
  rapt::Favor favor = favor_of(40);
  favor.final_state = state.view();
  (void)none.attend({.method = &favor});
  EXPECT_EQ(get(state, Dims{0, 40, 0}), -std::numeric_limits<float>::max() / 4);
  const rapt::Favor without = favor_of(40);
  favor.final_state = {}, favor.initial_state = state.view();
  EXPECT_TRUE(same_results(rows.attend({.method = &favor}), rows.attend({.method = &without})));
  const AttentionResult empty =
      scaled_dot_product_attention(rows.query, none.key, none.value, {.method = &favor});
  EXPECT_EQ(get(empty.output, Dims{0, 3, 3}), 0);
  EXPECT_EQ(get(empty.statistic, Dims{0, 3}), -std::numeric_limits<double>::infinity());
}

// A d_output that is NaN shows in the keys before its query alone.
TEST(LinearLaws, MaskedNanHasNoGradient) {
  const rapt::Favor favor = favor_of(40);
  const rapt::Causal causal;
  const rapt::Mask* masks[] = {&causal};
  const AttentionOptions options{.masks = masks, .method = &favor};
  const Rows rows(100);
  AttentionResult forward = rows.attend(options);
  Tensor d_output = random_rows({1, 100, 12}, 5);
  set(d_output, Dims{0, 70, 3}, kQuietNan);
  rapt::BackwardInputs inputs;
  inputs.state = forward.state(), inputs.d_output = d_output;
  const rapt::Gradients g =
      scaled_dot_product_attention_backward(rows.query, rows.key, rows.value, options, inputs);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(std::isnan(get(g.d_query, Dims{0, i, 0})), i == 70) << i;
    EXPECT_EQ(std::isnan(get(g.d_value, Dims{0, i, 3})), i <= 70) << i;
    EXPECT_EQ(std::isnan(get(g.d_key, Dims{0, i, 0})), i <= 70) << i;
  }
}

TEST(LinearLaws, HeadsThatShareKeysSumTheirGradients) {
  const rapt::Linear linear;
  const rapt::Causal causal;
  const rapt::Mask* masks[] = {&causal};
  const AttentionOptions options{.masks = masks, .method = &linear};
  const Rows rows(100, 2);
  const TensorView key = rows.key.view().slice(0, 0, 1), value = rows.value.view().slice(0, 0, 1);
  AttentionResult forward = scaled_dot_product_attention(rows.query, key, value, options);
  rapt::BackwardInputs inputs;
  inputs.state = forward.state(), inputs.d_output = forward.output;
  const rapt::Gradients shared =
      scaled_dot_product_attention_backward(rows.query, key, value, options, inputs);
  Tensor sum(DType::f32, {1, 100, 16});
  std::ranges::fill(sum.values<float>(), 0);
  for (int64_t h = 0; h < 2; ++h) {
    const TensorView query = rows.query.view().slice(0, h, h + 1);
    AttentionResult one = scaled_dot_product_attention(query, key, value, options);
    rapt::BackwardInputs of_one;
    of_one.state = one.state(), of_one.d_output = one.output;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(query, key, value, options, of_one);
    for (size_t i = 0; i < sum.values<float>().size(); ++i)
      sum.values<float>()[i] += g.d_key.values<float>()[i];
  }
  EXPECT_TRUE(same_bits(shared.d_key, sum));
}

// The argument that a call with a method is rejected for, and the word of the message that names
// the parameter: "method: features"; "accepted" if it is not rejected. Its output is untouched.
std::string rejected_for(const rapt::Method& method, const std::string& parameter = "",
                         const AttentionOptions& with = {}, int64_t k_len = 8) {
  const Rows rows(8), keys(k_len);
  AttentionOptions options = with;
  options.method = &method;
  Tensor output = filled(DType::f32, {1, 8, 12}, 7), statistic = filled(DType::f32, {1, 8}, 7);
  std::vector<std::byte> workspace(1 << 20);
  try {
    scaled_dot_product_attention(rows.query, keys.key, keys.value, options,
                                 {.state = {.output = output, .statistic = statistic}}, workspace);
  } catch (const rapt::Error& error) {
    EXPECT_TRUE(same_bits(output, filled(DType::f32, {1, 8, 12}, 7)));
    EXPECT_TRUE(same_bits(statistic, filled(DType::f32, {1, 8}, 7)));
    const bool named = std::string(error.what()).find(parameter) != std::string::npos;
    return error.argument() + std::string(": ") + (named ? parameter : error.what());
  }
  return "accepted";
}

TEST(LinearLaws, RejectsWhatItCannotCompute) {
  EXPECT_EQ(rejected_for(favor_of(8)), "accepted");
  EXPECT_EQ(rejected_for(favor_of(0), "features"), "method: features");
  EXPECT_EQ(rejected_for(favor_of((1 << 20) + 1), "features"), "method: features");
  rapt::Favor wide = favor_of(8);
  const Tensor other = rapt::favor_projection(8, 15);
  wide.projection = other.view();
  EXPECT_EQ(rejected_for(wide, "projection"), "method: projection");
  const Tensor half(DType::bf16, {8, 16});
  wide.projection = half.view();
  EXPECT_EQ(rejected_for(wide, "projection"), "method: projection");
  rapt::Favor shifted = favor_of(8);
  shifted.exponent = 0.125;
  EXPECT_EQ(rejected_for(shifted, "exponent"), "method: exponent");
  shifted.kind = rapt::FavorKind::trigonometric, shifted.exponent = -0.1;
  EXPECT_EQ(rejected_for(shifted, "exponent"), "method: exponent");
  const rapt::Causal causal;
  const rapt::Mask* masks[] = {&causal};
  EXPECT_EQ(rejected_for(favor_of(8), "", {.masks = masks}), "accepted");
  EXPECT_EQ(rejected_for(favor_of(8), "8 queries and 9 keys", {.masks = masks}, 9),
            "masks: 8 queries and 9 keys");
  EXPECT_EQ(rejected_for(rapt::Linear(), "8 queries and 7 keys", {.masks = masks}, 7),
            "masks: 8 queries and 7 keys");
  EXPECT_THROW(rapt::favor_projection(0, 8), rapt::Error);
  try {
    (void)rapt::make_method("linear:tailor");
    ADD_FAILURE() << "accepted";
  } catch (const rapt::Error& error) {
    EXPECT_NE(std::string(error.what()).find("taylor"), std::string::npos) << error.what();
  }
}

TEST(LinearLaws, RejectsStatesOfOtherShapes) {
  rapt::Linear state;
  Tensor wrong(DType::f32, {1, 16, 13}), doubles(DType::f64, {1, 17, 13}),
      right(DType::f32, {1, 17, 13});
  for (const Tensor* t : {&wrong, &doubles}) {
    state.initial_state = t->view(), state.final_state = {};
    EXPECT_EQ(rejected_for(state, "initial_state"), "method: initial_state");
    state.initial_state = {}, state.final_state = t->view();
    EXPECT_EQ(rejected_for(state, "final_state"), "method: final_state");
  }
  state.initial_state = right.view(), state.final_state = right.view();
  EXPECT_NE(rejected_for(state), "accepted");  // they overlap
}

// The features of linear have no power: the state of another method is rejected, and its own are
// not.
TEST(LinearLaws, LinearRejectsStatesWithAPower) {
  Tensor state = filled(DType::f32, {1, 17, 13}, 1);
  rapt::Linear linear;
  linear.initial_state = state.view();
  for (const double power : {0.0, -double{std::numeric_limits<float>::max()} / 4}) {
    set(state, Dims{0, 16, 0}, power);
    EXPECT_EQ(rejected_for(linear), "accepted") << power;
  }
  for (const double power : {1.0, -3.0}) {
    set(state, Dims{0, 16, 0}, power);
    EXPECT_EQ(rejected_for(linear, "initial_state"), "method: initial_state") << power;
  }
}

TEST(LinearLaws, GradientsRejectStates) {
  const Rows rows(8);
  const rapt::Linear whole;
  AttentionResult forward = rows.attend({.method = &whole});
  rapt::BackwardInputs inputs;
  inputs.state = forward.state(), inputs.d_output = forward.output;
  Tensor state(DType::f32, {1, 17, 13});
  for (const bool initial : {true, false}) {
    rapt::Linear linear;
    (initial ? linear.initial_state : linear.final_state) = state.view();
    try {
      (void)scaled_dot_product_attention_backward(rows.query, rows.key, rows.value,
                                                  {.method = &linear}, inputs);
      ADD_FAILURE() << "accepted";
    } catch (const rapt::Error& error) {
      EXPECT_STREQ(error.argument(), initial ? "initial_state" : "final_state");
    }
  }
}

// The given projection is used: that of the seed gives the bits of the seed.
TEST(LinearLaws, AProjectionCanBeGiven) {
  const Rows rows(70);
  rapt::Favor drawn = favor_of(24), given = favor_of(24);
  drawn.seed = 5;
  const Tensor projection = rapt::favor_projection(24, 16, 5);
  given.projection = projection.view();
  EXPECT_TRUE(same_results(rows.attend({.method = &given}), rows.attend({.method = &drawn})));
  given.seed = 6, given.projection = {};
  EXPECT_FALSE(
      same_bits(rows.attend({.method = &given}).output, rows.attend({.method = &drawn}).output));
}

}  // namespace
}  // namespace laws

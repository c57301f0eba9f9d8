#include "rapt/nn/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "memory/allocation_hooks.h"
#include "nn/gradient_check.h"
#include "rapt/nn/linear.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;
using nn::Parameter;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Parameters of these lengths, drawn, with drawn gradients.
std::vector<Parameter> drawn_parameters(DType dtype, const std::vector<int64_t>& lengths,
                                        uint64_t seed = 1) {
  std::vector<Parameter> all;
  for (const int64_t n : lengths) {
    all.push_back(nn::make_parameter(dtype, {n}));
    fill_normal(all.back().value, ++seed);
    fill_normal(all.back().gradient, ++seed);
  }
  return all;
}

std::vector<nn::NamedParameter> named(std::vector<Parameter>& parameters) {
  std::vector<nn::NamedParameter> all;
  for (Parameter& p : parameters) all.push_back({"p" + std::to_string(all.size()), &p});
  return all;
}

std::vector<std::byte> bytes_of_tensor(const Tensor& t) {
  const auto* first = static_cast<const std::byte*>(t.data());
  return {first, first + t.count() * size_of(t.dtype())};
}
std::vector<std::byte> bytes_of_values(const std::vector<Parameter>& parameters) {
  std::vector<std::byte> all;
  for (const Parameter& p : parameters)
    for (const std::byte b : bytes_of_tensor(p.value)) all.push_back(b);
  return all;
}

// Algorithm 1 of Kingma and Ba, and weight decay of either kind, for one number.
struct PlainAdam {
  nn::AdamOptions options;
  bool decoupled;
  double w, m = 0, v = 0;
  int t = 0;

  void step(double rate, double gradient) {
    ++t;
    double g = gradient;
    if (decoupled)
      w -= rate * options.weight_decay * w;
    else
      g += options.weight_decay * w;
    m = options.beta1 * m + (1 - options.beta1) * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    const double mean = m / (1 - std::pow(options.beta1, t));
    const double square = v / (1 - std::pow(options.beta2, t));
    w -= rate * mean / (std::sqrt(square) + options.eps);
  }
};

template <class E>
void expect_plain_loop(bool decoupled, const nn::AdamOptions& options, double tolerance) {
  const int64_t n = 37;
  std::vector<Parameter> parameters = drawn_parameters(dtype_of<E>(), {n});
  const auto values = parameters[0].value.values<E>();
  std::vector<PlainAdam> plain;
  for (const E w : values) plain.push_back({options, decoupled, w});
  nn::Adam adam;
  nn::AdamW adamw;
  if (decoupled)
    adamw.add_group(named(parameters), {.beta1 = options.beta1,
                                        .beta2 = options.beta2,
                                        .eps = options.eps,
                                        .weight_decay = options.weight_decay});
  else
    adam.add_group(named(parameters), options);
  for (uint64_t t = 0; t < 20; ++t) {
    fill_normal(parameters[0].gradient, 100 + t, t % 2 ? 1e-3 : 1);
    const double rate = 0.01 / static_cast<double>(1 + t);
    (decoupled ? adamw : adam).step(rate);
    for (size_t i = 0; i < plain.size(); ++i)
      plain[i].step(rate, parameters[0].gradient.values<E>()[i]);
  }
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_NEAR(values[i], plain[i].w, tolerance * (1 + std::abs(plain[i].w))) << i;
}

TEST(AdamTest, IsThePlainLoop) {
  const nn::AdamOptions cases[] = {
      {},
      {.weight_decay = 0.1},
      {.beta1 = 0, .beta2 = 0.5, .eps = 1e-3, .weight_decay = 0.02},
      {.beta1 = 0.99, .beta2 = 0, .eps = 1e-6},
  };
  for (const bool decoupled : {false, true})
    for (const nn::AdamOptions& options : cases) {
      expect_plain_loop<double>(decoupled, options, 1e-14);
      expect_plain_loop<float>(decoupled, options, 2e-6);
    }
}

TEST(AdamTest, HasTheDefaultsOfPyTorch) {
  const nn::AdamOptions adam;
  const nn::AdamWOptions adamw;
  EXPECT_EQ(adam.beta1, 0.9);
  EXPECT_EQ(adam.beta2, 0.999);
  EXPECT_EQ(adam.eps, 1e-8);
  EXPECT_EQ(adam.weight_decay, 0);
  EXPECT_EQ(adamw.beta1, 0.9);
  EXPECT_EQ(adamw.beta2, 0.999);
  EXPECT_EQ(adamw.eps, 1e-8);
  EXPECT_EQ(adamw.weight_decay, 0.01);
}

// Groups differ in weight decay and in their learning rates; frozen parameters stay.
TEST(AdamTest, GroupsHaveOptionsOfTheirOwn) {
  std::vector<Parameter> parameters = drawn_parameters(DType::f64, {5, 5, 5});
  std::vector<Parameter> alone = drawn_parameters(DType::f64, {5, 5, 5});
  parameters[2].gradient = {};
  nn::AdamW together;
  auto all = named(parameters);
  together.add_group({all[0]}, {.weight_decay = 0.3});
  together.add_group({all[1], all[2]}, {.weight_decay = 0, .learning_rate_scale = 0.5});
  nn::AdamW first({named(alone)[0]}, {.weight_decay = 0.3});
  nn::AdamW second({named(alone)[1]}, {.weight_decay = 0});
  for (int t = 0; t < 3; ++t) together.step(0.1), first.step(0.1), second.step(0.05);
  EXPECT_EQ(bytes_of_values(parameters), bytes_of_values(alone));
  EXPECT_EQ(together.state().size(), 6u);
}

TEST(AdamTest, SplitsByRank) {
  nn::Linear layer = nn::make_linear(3, 2);
  const auto [weights, others] = nn::split_by_rank(nn::named_parameters(layer, "a."));
  ASSERT_EQ(weights.size(), 1u);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(weights[0].name, "a.weight");
  EXPECT_EQ(others[0].name, "a.bias");
}

std::vector<std::byte> after_steps(DType dtype, const Context& context, bool decays) {
  std::vector<Parameter> parameters = drawn_parameters(dtype, {1, 70001, 0, 63, 30011});
  nn::Adam adam(named(parameters), {.weight_decay = decays ? 0.1 : 0});
  for (int t = 0; t < 3; ++t) adam.step(0.01, context);
  std::vector<std::byte> all = bytes_of_values(parameters);
  for (const nn::NamedView& s : adam.state())
    for (const std::byte b : bytes_of_tensor(Tensor::copy_of(s.view))) all.push_back(b);
  return all;
}

TEST(AdamTest, BitsDependOnNoThreads) {
  check::Random random(1);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const bool decays = dtype != DType::f64;
    const auto expected = after_steps(dtype, {.threads = 1}, decays);
    for (const int threads : {0, 2, 5})
      EXPECT_EQ(after_steps(dtype, {.threads = threads}, decays), expected) << threads;
    laws::for_each_executor(random, [&](const Context& context) {
      EXPECT_EQ(after_steps(dtype, context, decays), expected);
    });
  }
}

// The f32 copy has the bits of an f32 parameter, and the parameter is its rounding.
template <class H>
void expect_master_copies() {
  std::vector<Parameter> narrow = drawn_parameters(dtype_of<H>(), {77});
  std::vector<Parameter> wide = drawn_parameters(DType::f32, {77});
  for (size_t i = 0; i < 77; ++i)
    wide[0].value.values<float>()[i] = narrow[0].value.template values<H>()[i];
  nn::AdamW a(named(narrow)), b(named(wide));
  const auto step = [&](uint64_t seed) {
    fill_normal(narrow[0].gradient, seed), fill_normal(wide[0].gradient, seed);
    a.step(1e-4), b.step(1e-4);  // less than half a unit of most numbers
  };
  for (uint64_t t = 0; t < 50; ++t) step(t);
  // A value that is set from outside is where the next step begins.
  narrow[0].value.template values<H>()[5] = H::from(7.0f);
  wide[0].value.values<float>()[5] = 7;
  for (uint64_t t = 50; t < 60; ++t) step(t);
  for (size_t i = 0; i < 77; ++i)
    EXPECT_EQ(narrow[0].value.template values<H>()[i].bits,
              H::from(wide[0].value.values<float>()[i]).bits)
        << i;
  const auto state = a.state();
  ASSERT_EQ(state.size(), 4u);
  EXPECT_EQ(state[3].name, "p0.master");
  EXPECT_EQ(bytes_of_tensor(Tensor::copy_of(state[3].view)), bytes_of_tensor(wide[0].value));
}

TEST(AdamTest, Parameters16BitsWideHaveCopiesInF32) {
  expect_master_copies<BFloat16>();
  expect_master_copies<Float16>();
}

TEST(AdamTest, FrozenParametersAreSkipped) {
  std::vector<Parameter> parameters = drawn_parameters(DType::f32, {4, 4});
  nn::Adam adam(named(parameters));
  adam.step();
  const auto before = bytes_of_tensor(parameters[0].value);
  parameters[0].gradient = {};
  adam.step();
  EXPECT_EQ(bytes_of_tensor(parameters[0].value), before);
  const auto state = adam.state();
  EXPECT_EQ(static_cast<const int64_t*>(state[0].view.data)[0], 1);
  EXPECT_EQ(static_cast<const int64_t*>(state[3].view.data)[0], 2);
}

TEST(AdamTest, NanStaysInItsElement) {
  std::vector<Parameter> parameters = drawn_parameters(DType::f32, {19});
  parameters[0].gradient.values<float>()[3] = NAN;
  nn::Adam adam(named(parameters));
  adam.step();
  for (size_t i = 0; i < 19; ++i)
    EXPECT_EQ(std::isnan(parameters[0].value.values<float>()[i]), i == 3) << i;
}

TEST(AdamTest, ContinuesFromItsState) {
  for (const DType dtype : {DType::f64, DType::bf16}) {
    std::vector<Parameter> a = drawn_parameters(dtype, {33, 2}),
                           b = drawn_parameters(dtype, {33, 2});
    nn::AdamW first(named(a)), other(named(b));
    for (int t = 0; t < 5; ++t) first.step(0.01);
    std::vector<Tensor> copies;
    std::vector<nn::NamedView> saved;
    for (const nn::NamedView& s : first.state()) {
      copies.push_back(Tensor::copy_of(s.view));
      saved.push_back({s.name, copies.back().view()});
    }
    EXPECT_EQ(saved[0].name, "p0.step");
    EXPECT_EQ(saved[1].name, "p0.exp_avg");
    EXPECT_EQ(saved[2].name, "p0.exp_avg_sq");
    nn::load_tensors(other.state(), saved);
    for (size_t i = 0; i < a.size(); ++i)
      std::memcpy(b[i].value.data(), a[i].value.data(), bytes_of_tensor(a[i].value).size());
    for (int t = 0; t < 5; ++t) first.step(0.01), other.step(0.01);
    EXPECT_EQ(bytes_of_values(a), bytes_of_values(b));
  }
}

TEST(AdamTest, NumbersParametersWithoutNames) {
  nn::Linear layer = nn::make_linear(3, 2);
  nn::AdamW adam(nn::parameters_of(layer));
  const auto state = adam.state();
  ASSERT_EQ(state.size(), 6u);
  EXPECT_EQ(state[0].name, "0.step");
  EXPECT_EQ(state[4].name, "1.exp_avg");
}

TEST(AdamTest, RejectsOptions) {
  std::vector<Parameter> p = drawn_parameters(DType::f32, {3});
  const auto rejects = [&](const char* name, const nn::AdamOptions& options) {
    expect_error(ErrorCode::argument, {name}, [&] { nn::Adam(named(p), options); });
  };
  for (const double beta : {-0.1, 1.0, kNan, HUGE_VAL}) {
    rejects("beta1", {.beta1 = beta});
    rejects("beta2", {.beta2 = beta});
  }
  for (const double x : {-1e-9, kNan, HUGE_VAL}) {
    rejects("eps", {.eps = x});
    rejects("weight_decay", {.weight_decay = x});
    rejects("learning_rate_scale", {.learning_rate_scale = x});
    expect_error(ErrorCode::argument, {"weight_decay"},
                 [&] { nn::AdamW(named(p), {.weight_decay = x}); });
  }
}

TEST(AdamTest, RejectsParameters) {
  std::vector<Parameter> p = drawn_parameters(DType::f32, {3, 4});
  nn::Adam adam({named(p)[0]});
  const auto rejects = [&](const char* words, const std::vector<nn::NamedParameter>& more) {
    expect_error(ErrorCode::argument, {words}, [&] { adam.add_group(more); });
    EXPECT_EQ(adam.state().size(), 3u);
  };
  rejects("twice", {{"other", &p[0]}});
  rejects("twice", {{"a", &p[1]}, {"b", &p[1]}});
  rejects("named p0", {{"p0", &p[1]}});
  rejects("null", {{"x", nullptr}});
  Parameter integers{.value = Tensor(DType::i32, {3}), .gradient = Tensor(DType::f32, {3})};
  expect_error(ErrorCode::dtype, {"x", "i32"}, [&] { adam.add_group({{"x", &integers}}); });
  Parameter wide{.value = Tensor(DType::f32, {3}), .gradient = Tensor(DType::f64, {3})};
  expect_error(ErrorCode::dtype, {"gradient of x"}, [&] { adam.add_group({{"x", &wide}}); });
  Parameter longer{.value = Tensor(DType::f32, {3}), .gradient = Tensor(DType::f32, {4})};
  expect_error(ErrorCode::shape, {"gradient of x"}, [&] { adam.add_group({{"x", &longer}}); });
}

TEST(AdamTest, ARejectedStepWritesNothing) {
  std::vector<Parameter> p = drawn_parameters(DType::f32, {30, 4});
  nn::Adam adam(named(p));
  adam.step();
  const auto expect_unchanged = [&](ErrorCode code, const char* words, double rate,
                                    const Context& context = {}) {
    const auto before = bytes_of_values(p);
    expect_error(code, {words}, [&] { adam.step(rate, context); });
    EXPECT_EQ(bytes_of_values(p), before);
    EXPECT_EQ(static_cast<const int64_t*>(adam.state()[0].view.data)[0], 1);
  };
  for (const double rate : {-1e-3, kNan, HUGE_VAL})
    expect_unchanged(ErrorCode::argument, "learning rate", rate);
  CancelToken token;
  token.cancel();
  expect_unchanged(ErrorCode::cancelled, "nothing has been written", 1e-3, {.cancel = &token});
  expect_unchanged(ErrorCode::argument, "threads", 1e-3, {.threads = -1});
  p[1].gradient = Tensor(DType::f32, {5});
  expect_unchanged(ErrorCode::shape, "gradient of p1", 1e-3);
  p[1] = nn::make_parameter(DType::bf16, {4});
  expect_unchanged(ErrorCode::dtype, "p1", 1e-3);
}

TEST(AdamTest, AllocatesNothing) {
#if RAPT_ALLOCATION_HOOKS
  std::vector<Parameter> p = drawn_parameters(DType::bf16, {300, 4});
  nn::Adam adam(named(p));
  adam.step(1e-3, {.threads = 1});
  laws::start_counting();
  adam.step(1e-3, {.threads = 1});
  EXPECT_EQ(laws::stop_counting().made, 0);
#else
  GTEST_SKIP() << "allocations cannot be counted here";
#endif
}

}  // namespace

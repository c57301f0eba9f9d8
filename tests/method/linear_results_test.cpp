// favor and linear agree with loops over pairs of tokens; these agree with finite differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "method/token_loops.h"
#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/method/favor.h"
#include "rapt/method/linear.h"
#include "support/call.h"

namespace laws {
namespace {

constexpr const char* kMaps[] = {"positive", "hyperbolic", "trigonometric",
                                 "elu",      "relu",       "taylor"};

struct LinearCase {
  TokenProblem problem;
  Numbers<double> query = {}, key = {}, value = {}, d_output = {}, d_lse = {};
};

Numbers<double> normals(std::mt19937& generator, int64_t count, double deviation = 1) {
  std::normal_distribution<double> normal(0, deviation);
  Numbers<double> x(static_cast<size_t>(count));
  // Numbers that f32 holds, so that both sides read the same ones.
  for (double& v : x) v = static_cast<float>(normal(generator));
  return x;
}

LinearCase case_of(const char* map, bool causal, int64_t n, double exponent = 0) {
  std::mt19937 generator(static_cast<unsigned>(n));
  LinearCase c{.problem = {.map = map,
                           .q_len = n,
                           .k_len = n,
                           .head_dim = 7,
                           .value_dim = 5,
                           .causal = causal,
                           .scale = 0.3,
                           .exponent = exponent,
                           .features = 20}};
  TokenProblem& p = c.problem;
  const Tensor w = rapt::favor_projection(p.features, p.head_dim);
  p.projection.assign(w.values<double>().begin(), w.values<double>().end());
  c.query = normals(generator, n * p.head_dim), c.key = normals(generator, n * p.head_dim);
  c.value = normals(generator, n * p.value_dim), c.d_output = normals(generator, n * p.value_dim);
  c.d_lse = normals(generator, n);
  return c;
}

// The method of a problem, which it owns.
struct OwnedMethod {
  rapt::Favor favor;
  rapt::Linear linear;
  bool is_favor;

  explicit OwnedMethod(const TokenProblem& p) {
    const auto map = std::ranges::find(kMaps, p.map) - kMaps;
    is_favor = map < 3;
    if (is_favor) {
      favor.kind = static_cast<rapt::FavorKind>(map);
      favor.features = p.features, favor.exponent = p.exponent;
    } else {
      linear.map = static_cast<rapt::LinearMap>(map - 3);
      linear.normalized = p.normalized ? rapt::Normalized::yes : rapt::Normalized::no;
    }
  }
  const rapt::Method* get() const {
    return is_favor ? static_cast<const rapt::Method*>(&favor) : &linear;
  }
};

template <class E>
Tensor tensor_of(const Numbers<double>& x, std::initializer_list<int64_t> shape) {
  Tensor t(rapt::dtype_of<E>(), shape);
  std::ranges::transform(x, t.values<E>().begin(), [](double v) { return static_cast<E>(v); });
  return t;
}

template <class E>
TokenResults<E> results_of(const LinearCase& c, const Context& context = {}) {
  const TokenProblem& p = c.problem;
  const OwnedMethod method(p);
  const rapt::Causal causal;
  AttentionOptions options{.scale = p.scale, .method = method.get()};
  const rapt::Mask* masks[] = {&causal};
  if (p.causal) options.masks = masks;
  const Tensor query = tensor_of<E>(c.query, {p.q_len, p.head_dim}),
               key = tensor_of<E>(c.key, {p.k_len, p.head_dim}),
               value = tensor_of<E>(c.value, {p.k_len, p.value_dim}),
               d_output = tensor_of<E>(c.d_output, {p.q_len, p.value_dim}),
               d_lse = tensor_of<E>(c.d_lse, {p.q_len});
  AttentionResult forward = scaled_dot_product_attention(query, key, value, options, context);
  rapt::BackwardInputs inputs;
  inputs.state = forward.state(), inputs.d_output = d_output;
  if (p.normalized) inputs.d_statistic = d_lse;
  const rapt::Gradients g =
      scaled_dot_product_attention_backward(query, key, value, options, inputs, {}, context);
  const auto numbers = [](const Tensor& t) {
    return Numbers<E>(t.values<E>().begin(), t.values<E>().end());
  };
  return {numbers(forward.output), numbers(forward.statistic), numbers(g.d_query), numbers(g.d_key),
          numbers(g.d_value)};
}

template <class Real>
TokenResults<Real> loops_of(const LinearCase& c) {
  const auto as = [](const Numbers<double>& x) { return Numbers<Real>(x.begin(), x.end()); };
  return TokenLoops<Real>(c.problem, as(c.query), as(c.key), as(c.value))
      .run(as(c.d_output), as(c.d_lse));
}

// At most twice the error of the plain loop in the same precision, and a floor: a number is a sum
// over head_dim and value_dim, 12 terms and a few roundings of each, that may be as large as the
// largest number.
template <class E>
void expect_close(const char* name, const Numbers<E>& got, const Numbers<E>& plain,
                  const Numbers<long double>& truth) {
  ASSERT_EQ(got.size(), truth.size()) << name;
  double error = 0, allowed = 0, most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(std::isfinite(got[i]), std::isfinite(static_cast<double>(truth[i]))) << name << i;
    if (!std::isfinite(static_cast<double>(truth[i]))) continue;
    most = std::max(most, std::abs(static_cast<double>(truth[i])));
    error = std::max(error, static_cast<double>(std::abs(got[i] - truth[i])));
    allowed = std::max(allowed, static_cast<double>(std::abs(plain[i] - truth[i])));
  }
  constexpr double kRoundings = 16;
  EXPECT_LE(error, 2 * allowed + kRoundings * std::numeric_limits<E>::epsilon() * most) << name;
}

template <class E>
void expect_agreement(const LinearCase& c) {
  SCOPED_TRACE(c.problem.map + (c.problem.causal ? " causal " : " ") +
               std::to_string(c.problem.q_len));
  const TokenResults<E> got = results_of<E>(c), plain = loops_of<E>(c);
  const TokenResults<long double> truth = loops_of<long double>(c);
  expect_close("output", got.output, plain.output, truth.output);
  if (c.problem.normalized && c.problem.map != "trigonometric")
    expect_close("lse", got.lse, plain.lse, truth.lse);
  expect_close("d_query", got.d_query, plain.d_query, truth.d_query);
  expect_close("d_key", got.d_key, plain.d_key, truth.d_key);
  expect_close("d_value", got.d_value, plain.d_value, truth.d_value);
}

TEST(LinearResults, AgreeWithLoopsOverTokens) {
  for (const char* map : kMaps)
    for (const bool causal : {false, true})
      for (const int64_t n : {1, 63, 64, 65, 150}) {
        expect_agreement<float>(case_of(map, causal, n));
        expect_agreement<double>(case_of(map, causal, n));
      }
}

// Keys grow along the sequence, so that every chunk raises the power of the state.
TEST(LinearResults, PowersThatRise) {
  for (const char* map : {"positive", "hyperbolic"})
    for (const bool causal : {false, true}) {
      LinearCase c = case_of(map, causal, 200);
      for (size_t i = 0; i < c.key.size(); ++i)
        c.key[i] = static_cast<float>(c.key[i] * (0.25 + static_cast<double>(i / 7) / 70));
      expect_agreement<float>(c);
      expect_agreement<double>(c);
    }
}

// The limit of the exponentials (docs/methods/favor.md): the query's large feature meets that of
// the key that is e^-spread as large, which f32 does not hold beyond a spread of 87, nor its
// subnormal numbers, which the scalar set keeps, beyond one of 104.
TEST(LinearResults, FeaturesTooFarApartHaveTheSumZero) {
  Tensor projection(DType::f32, {2, 1});
  projection.values<float>()[0] = 1, projection.values<float>()[1] = -1;
  rapt::Favor favor;
  favor.features = 2, favor.projection = projection.view();
  const auto attend = [&]<class E>(double spread, E) {
    const Tensor query = tensor_of<E>({spread / 2}, {1, 1}),
                 key = tensor_of<E>({-spread / 2}, {1, 1}), value = tensor_of<E>({3}, {1, 1});
    const AttentionResult got =
        scaled_dot_product_attention(query, key, value, {.scale = 1, .method = &favor});
    return std::pair(get(got.output, Dims{0, 0}), get(got.statistic, Dims{0}));
  };
  const auto near = attend(80, 0.0f), far = attend(110, 0.0f);
  EXPECT_FLOAT_EQ(static_cast<float>(near.first), 3);
  EXPECT_FLOAT_EQ(static_cast<float>(near.second), -1600);  // ln(2 e^-1600 / 2)
  EXPECT_TRUE(std::isnan(far.first));
  EXPECT_EQ(far.second, -std::numeric_limits<double>::infinity());
  const auto wide = attend(100, 0.0);
  EXPECT_DOUBLE_EQ(wide.first, 3);
  EXPECT_DOUBLE_EQ(wide.second, -2500);
}

TEST(LinearResults, WithoutDivisionAndWithAnExponent) {
  for (const char* map : {"elu", "taylor"}) {
    LinearCase c = case_of(map, true, 100);
    c.problem.normalized = false;
    std::ranges::fill(c.d_lse, 0);
    expect_agreement<float>(c);
  }
  for (const char* map : {"positive", "hyperbolic"})
    expect_agreement<float>(case_of(map, true, 100, -0.05));
}

TEST(LinearResults, LoopsAgreeWithFiniteDifferences) {
  for (const char* map : kMaps) {
    LinearCase c = case_of(map, true, 9);
    const TokenResults<long double> r = loops_of<long double>(c);
    const auto loss = [&] {
      const TokenResults<long double> at = loops_of<long double>(c);
      long double sum = 0;
      for (size_t i = 0; i < at.output.size(); ++i) sum += at.output[i] * c.d_output[i];
      for (size_t i = 0; i < at.lse.size(); ++i) sum += at.lse[i] * c.d_lse[i];
      return sum;
    };
    for (const auto& [input, gradient] :
         {std::pair{&c.query, &r.d_query}, {&c.key, &r.d_key}, {&c.value, &r.d_value}})
      for (const size_t i : {size_t{3}, size_t{20}, size_t{31}}) {
        if (!std::isfinite(static_cast<double>((*gradient)[i]))) continue;  // lse of trigonometric
        const double x = (*input)[i], step = 1e-5;
        (*input)[i] = x + step;
        const long double above = loss();
        (*input)[i] = x - step;
        const long double below = loss();
        (*input)[i] = x;
        const auto slope = static_cast<double>((above - below) / (2 * step));
        if (!std::isfinite(slope)) continue;
        EXPECT_NEAR(slope, static_cast<double>((*gradient)[i]), 1e-6 * (1 + std::abs(slope)))
            << map << " " << i;
      }
  }
}

// Lengths: as if the keys behind were not there.
TEST(LinearResults, LengthsAreAsFewerKeys) {
  const LinearCase c = case_of("positive", false, 150);
  const TokenProblem& p = c.problem;
  const OwnedMethod method(p);
  const Tensor query = tensor_of<float>(c.query, {1, 150, 7}),
               key = tensor_of<float>(c.key, {1, 150, 7}),
               value = tensor_of<float>(c.value, {1, 150, 5});
  const int64_t length = 70;
  const rapt::Lengths lengths(TensorView(&length, {1}));
  const AttentionResult all = scaled_dot_product_attention(
      query, key, value, {.masks = {&lengths}, .method = method.get()});
  const AttentionResult fewer = scaled_dot_product_attention(
      query, key.view().slice(1, 0, 70), value.view().slice(1, 0, 70), {.method = method.get()});
  EXPECT_TRUE(same_results(all, fewer));
}

}  // namespace
}  // namespace laws

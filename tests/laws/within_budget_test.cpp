// Laws that hold up to rounding. Two results of one mathematical value may each be a budget away
// from it, hence two budgets between them (tolerance.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "check/tolerance/tolerance.h"
#include "rapt/mask/boolean.h"
#include "support/call.h"

namespace laws {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

AttentionResult call(const TensorView& q, const TensorView& k, const TensorView& v,
                     const AttentionOptions& options) {
  return scaled_dot_product_attention(q, k, v, options);
}

double epsilon_of(const Case& c) {
  return c.descriptor.dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                                          : std::numeric_limits<float>::epsilon();
}

// Each element of `got` near that of `expected`, within two budgets plus `extra` per element.
void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 const Expectation& truth, const char* what, double extra = 0) {
  const double bound = 2 * truth.budget().max + extra;
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(expected[i])) {
      ASSERT_EQ(got[i], expected[i]) << what << " " << i;
      continue;
    }
    ASSERT_LE(std::abs(got[i] - expected[i]), bound)
        << what << " " << i << ": " << got[i] << " instead of " << expected[i];
  }
}

void expect_near(const AttentionResult& got, const AttentionResult& expected, const Case& c,
                 double extra_output = 0, double extra_lse = 0) {
  const Expectations truth = expectations(c.for_reference());
  expect_near(values_of(got.output), values_of(expected.output), truth.output, "output",
              extra_output);
  expect_near(values_of(got.statistic), values_of(expected.statistic), truth.lse, "lse", extra_lse);
}

double largest(const TensorView& view) {
  double found = 0;
  for (const double x : values_of(view)) found = std::max(found, std::abs(x));
  return found;
}

// Keys, values, mask and bias in another order: other sums of the same terms.
TEST(WithinBudget, JointPermutationOfKeys) {
  Wanted wanted = unmasked();
  wanted.leading = false;
  for_problems(60, wanted, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    Tensor allowed(DType::boolean, {p.q_len, p.k_len});
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(0.7)); });
    const Tensor bias = random_normal(random, p.dtype, {p.q_len, p.k_len});
    const auto run = [&](const Tensor& k, const Tensor& v, const Tensor& m, const Tensor& b) {
      const rapt::Boolean mask(m);
      const rapt::Mask* masks[] = {&mask};
      AttentionOptions options = c.options;
      options.masks = masks;
      options.bias = b;
      return call(c.query, k, v, options);
    };
    const auto order = random.permutation(p.k_len);
    check::Problem truth = c.for_reference();
    truth.bias = bias;
    truth.allowed = [&](auto, int64_t i, int64_t j) { return get(allowed, Dims{i, j}) != 0; };
    const Expectations expected = expectations(truth);
    const AttentionResult got = run(taken(c.key, -2, order), taken(c.value, -2, order),
                                    taken(allowed, -1, order), taken(bias, -1, order));
    EXPECT_TRUE(met_by(expected.output, values_of(got.output), "output", 2));
    EXPECT_TRUE(met_by(expected.lse, values_of(got.statistic), "lse", 2));
  });
}

// The output lies between the smallest and the largest value of its column.
TEST(WithinBudget, Convexity) {
  for_problems(60, unmasked(), [](const Case& c, Random&) {
    if (c.descriptor.k_len == 0) return;
    const AttentionResult got = attend(c);
    const Expectations truth = expectations(c.for_reference());
    const double slack = truth.output.budget().max;
    double low = kInfinity, high = -kInfinity;
    for (const double v : values_of(c.value)) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
    for (const double o : values_of(got.output)) {
      ASSERT_GE(o, low - slack);
      ASSERT_LE(o, high + slack);
    }
  });
}

TEST(WithinBudget, ConstantValue) {
  for_problems(60, {}, [](const Case& c, Random& random) {
    const double drawn = random.pick({1.0, -3.5, 1e10, 1e-10});
    const double constant = get(filled(c.descriptor.dtype, {1}, drawn), Dims{0});
    const Tensor value = mapped(c.value, [&](double, auto) { return constant; });
    const AttentionResult got = call(c.query, c.key, value, c.options);
    check::Problem problem = c.for_reference();
    problem.value = value;
    EXPECT_TRUE(met_by(expectations(problem).output, values_of(got.output), "output"));
    // Checked without the plain loop: weights that sum to 1 give the constant, or 0 where a query
    // has no allowed keys.
    const std::vector<double> lse = values_of(got.statistic);
    const std::vector<double> output = values_of(got.output);
    // Sums of k_len terms, rounded each: numerator and denominator.
    const double bound =
        std::abs(constant) * epsilon_of(c) * (3 + 2 * static_cast<double>(c.descriptor.k_len));
    for (size_t i = 0; i < output.size(); ++i) {
      const bool empty = lse[i / static_cast<size_t>(c.descriptor.value_dim)] == -kInfinity;
      ASSERT_NEAR(output[i], empty ? 0 : constant, bound);
    }
  });
}

// output(a V + b) = a output(V) + b.
TEST(WithinBudget, AffineValue) {
  Wanted wanted = unmasked();
  wanted.empty = false;
  for_problems(40, wanted, [](const Case& c, Random&) {
    const double a = 3, b = 0.5;
    const Tensor value = mapped(c.value, [&](double x, auto) { return a * x + b; });
    AttentionResult expected = attend(c);
    expected.output = mapped(expected.output, [&](double x, auto) { return a * x + b; });
    const double rounding = 4 * epsilon_of(c) * (a * largest(c.value) + b);
    const Expectations truth = expectations(c.for_reference());
    expect_near(call(c.query, c.key, value, c.options), expected, c,
                2 * a * truth.output.budget().max + rounding +
                    epsilon_of(c) * b * 2 * static_cast<double>(c.descriptor.k_len));
  });
}

// A vector added to every key shifts all scores of a row alike: output as before, lse by the shift.
TEST(WithinBudget, CommonShiftOfKeys) {
  Wanted wanted;
  wanted.leading = wanted.empty = false;
  for_problems(40, wanted, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    const Tensor shift = random_normal(random, p.dtype, {p.head_dim}, p.magnitude);
    const Tensor key =
        mapped(c.key, [&](double x, auto index) { return x + get(shift, Dims{index.back()}); });
    check::Problem moved = c.for_reference();
    moved.key = key;
    const AttentionResult got = call(c.query, key, c.value, c.options);
    // Both problems have their own budgets, and the shifted keys were rounded.
    const Expectations before = expectations(c.for_reference());
    const Expectations after = expectations(moved);
    const double scale = std::abs(p.scale.value_or(1 / std::sqrt(double(p.head_dim))));
    const double rounding =
        epsilon_of(c) * scale * static_cast<double>(p.head_dim) * largest(c.query) * largest(key);
    const std::vector<double> old_output = values_of(attend(c).output);
    const std::vector<double> output = values_of(got.output);
    const double bound =
        before.output.budget().max + after.output.budget().max + 2 * rounding * largest(c.value);
    for (size_t i = 0; i < output.size(); ++i) ASSERT_NEAR(output[i], old_output[i], bound) << i;
  });
}

// Rotating queries and keys alike changes no score. The rotation is a Hadamard matrix over 2 and
// the numbers are small integers, so that the rotated ones are exact and only sums are rounded
// otherwise.
TEST(WithinBudget, RotationOfQueriesAndKeys) {
  constexpr int64_t kRows = 37, kDim = 4;
  constexpr double kHadamard[kDim][kDim] = {
      {.5, .5, .5, .5}, {.5, -.5, .5, -.5}, {.5, .5, -.5, -.5}, {.5, -.5, -.5, .5}};
  Random random(base_seed());
  const auto rotated = [&](const Tensor& from) {
    Tensor to(DType::f32, {kRows, kDim});
    const auto in = from.values<float>();
    for (size_t i = 0; i < static_cast<size_t>(kRows); ++i)
      for (size_t d = 0; d < static_cast<size_t>(kDim); ++d) {
        double sum = 0;
        for (size_t e = 0; e < static_cast<size_t>(kDim); ++e)
          sum += kHadamard[d][e] * static_cast<double>(in[i * kDim + e]);
        to.values<float>()[i * kDim + d] = static_cast<float>(sum);
      }
    return to;
  };
  const auto integers = [&] {
    Tensor t(DType::f32, {kRows, kDim});
    for (float& x : t.values<float>()) x = static_cast<float>(random.between(-4, 4));
    return t;
  };
  const Tensor query = integers(), key = integers(), value = integers();
  const AttentionResult plain = call(query, key, value, {});
  const AttentionResult turned = call(rotated(query), rotated(key), value, {});
  const Expectations truth = expectations({query, key, value, {}, {}, {}});
  expect_near(values_of(turned.output), values_of(plain.output), truth.output, "output");
  expect_near(values_of(turned.statistic), values_of(plain.statistic), truth.lse, "lse");
}

TEST(WithinBudget, BiasShiftedPerRow) {
  Wanted wanted;
  wanted.bias = false;
  for_problems(40, wanted, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    const Tensor bias = random_normal(random, p.dtype, {p.q_len, 1});
    AttentionOptions options = c.options;
    options.bias = bias;
    const AttentionResult got = call(c.query, c.key, c.value, options);
    AttentionResult expected = attend(c);
    expected.statistic = mapped(expected.statistic, [&](double lse, auto index) {
      return lse + get(bias, Dims{index.back(), 0});
    });
    check::Problem with_bias = c.for_reference();
    with_bias.bias = bias;
    const Expectations truth = expectations(with_bias);
    expect_near(got, expected, c, truth.output.budget().max, truth.lse.budget().max);
  });
}

TEST(WithinBudget, DuplicatedKeys) {
  for_problems(40, unmasked(), [](const Case& c, Random&) {
    Dims twice;
    for (int64_t j = 0; j < c.descriptor.k_len; ++j) twice.insert(twice.end(), {j, j});
    const AttentionResult got =
        call(c.query, taken(c.key, -2, twice), taken(c.value, -2, twice), c.options);
    AttentionResult expected = attend(c);
    expected.statistic =
        mapped(expected.statistic, [](double lse, auto) { return lse + std::log(2.0); });
    expect_near(got, expected, c);
  });
}

TEST(WithinBudget, BooleanMaskIsAdditiveInfinity) {
  Wanted wanted = unmasked();
  wanted.leading = false;
  for_problems(60, wanted, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    Tensor allowed(DType::boolean, {p.q_len, p.k_len});
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(0.5)); });
    Tensor bias(p.dtype, {p.q_len, p.k_len});
    for_each_index(bias.dims(),
                   [&](auto i) { set(bias, i, get(allowed, i) != 0 ? 0 : -kInfinity); });
    const rapt::Boolean mask(allowed);
    const rapt::Mask* masks[] = {&mask};
    AttentionOptions by_mask = c.options, by_bias = c.options;
    by_mask.masks = masks;
    by_bias.bias = bias;
    check::Problem truth = c.for_reference();
    truth.bias = bias;
    const Expectations expected = expectations(truth);
    const AttentionResult masked = call(c.query, c.key, c.value, by_mask);
    const AttentionResult biased = call(c.query, c.key, c.value, by_bias);
    for (const AttentionResult* got : {&masked, &biased}) {
      EXPECT_TRUE(met_by(expected.output, values_of(got->output), "output"));
      EXPECT_TRUE(met_by(expected.lse, values_of(got->statistic), "lse"));
    }
  });
}

TEST(WithinBudget, ZeroQueryGivesMean) {
  Wanted wanted = unmasked();
  wanted.empty = false;
  for_problems(30, wanted, [](const Case& c, Random&) {
    const Tensor query = mapped(c.query, [](double, auto) { return 0.0; });
    check::Problem truth = c.for_reference();
    truth.query = query;
    AttentionOptions options = c.options;
    options.weights.emplace();
    const AttentionResult got = call(query, c.key, c.value, options);
    EXPECT_TRUE(met_by(expectations(truth).output, values_of(got.output), "output"));
    const double mean = 1.0 / static_cast<double>(c.descriptor.k_len);
    for (const double weight : values_of(got.weights))
      ASSERT_NEAR(weight, mean, 4 * epsilon_of(c) * mean);
    for (const double lse : values_of(got.statistic))
      ASSERT_NEAR(lse, -std::log(mean), 4 * epsilon_of(c) * (1 - std::log(mean)));
  });
}

}  // namespace
}  // namespace laws
